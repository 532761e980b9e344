"""The process of the server host: `python -P -m acp_launch.app.serverhost`. Guards are forked before all imports."""

import sys

from acp_launch import shutdown


def main() -> int:
    from acp_launch.app.planning import prepare_launch

    prepare_launch()
    from acp_launch.app.shared_servers import serve

    return serve()


if __name__ == "__main__":
    from acp_launch.process.guard_client import dismiss_guards

    shutdown.listen()
    code = 1
    try:
        with shutdown.raise_interrupts():
            code = main()
    except KeyboardInterrupt:
        code = shutdown.code()
    finally:
        dismiss_guards()
    shutdown.finish(code)
    sys.exit(code)
