"""
Ten secrets from a Secret Service, each way in a process of its own: `tests.benchmarks.secrets ours|floor|set`.

The floor is one connection and one session of secretstorage, and nothing else; `set` puts the ten there. Printed are
the seconds each takes beyond what a run without secrets has imported anyway: its own imports, and the lookup.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

NAMES = [f"bench/{number}" for number in range(10)]


def floor() -> Callable[[], int]:
    def look() -> int:
        import secretstorage
        from secretstorage.util import open_session

        with closing(secretstorage.dbus_init()) as connection:
            collection = secretstorage.Collection(connection)
            collection.session = open_session(connection)
            found = [next(collection.search_items({"service": "acp-launch", "username": name})) for name in NAMES]
            return sum(len(item.get_secret()) > 0 for item in found)

    return look


def ours() -> Callable[[], int]:
    import acp_launch.app.consent
    import acp_launch.cli.run
    import acp_launch.plan.resolve
    import acp_launch.profile.load
    import acp_launch.settings.load  # noqa: F401
    from acp_launch.settings.model import Settings

    nowhere = Path(os.devnull)
    settings = Settings(config=nowhere, state=nowhere, cache=nowhere)

    def look() -> int:
        from acp_launch.app.stores import outcomes

        return sum(outcome.state == "found" for outcome in outcomes(NAMES, settings).values())

    return look


def put() -> Callable[[], int]:
    from acp_launch.secret.keyring import Keyring
    from acp_launch.secret.value import Secret
    from acp_launch.settings.model import KeyringSettings

    def look() -> int:
        store = Keyring(KeyringSettings(), os.environ, interactive=False)
        for name in NAMES:
            store.write(name, Secret(f"value of {name} " + "x" * 40))
        return len(NAMES)

    return look


if __name__ == "__main__":
    look = {"ours": ours, "floor": floor, "set": put}[sys.argv[1]]()
    began = time.perf_counter()
    found = look()
    print(time.perf_counter() - began)
    sys.exit(0 if found == len(NAMES) else f"{found} of {len(NAMES)}")
