"""`python -m acp_launch`, and the console script."""

import sys


def main() -> None:
    """Answer `--version` before anything is imported; everything else is the command line's."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from acp_launch import __version__

        sys.stdout.write(f"acp-launch {__version__}\n")
        return
    from acp_launch.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
