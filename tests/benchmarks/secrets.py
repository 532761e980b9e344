"""
Ten secrets from a Secret Service, each way in a process of its own: `tests.benchmarks.secrets ours|floor|set`.

The floor is one connection and one session of secretstorage, and nothing else; `set` puts the ten there.
"""

import os
import sys
from contextlib import closing
from pathlib import Path

NAMES = [f"bench/{number}" for number in range(10)]


def floor() -> int:
    import secretstorage
    from secretstorage.util import open_session

    with closing(secretstorage.dbus_init()) as connection:
        collection = secretstorage.Collection(connection)
        collection.session = open_session(connection)
        found = [next(collection.search_items({"service": "acp-launch", "username": name})) for name in NAMES]
        return sum(len(item.get_secret()) > 0 for item in found)


def ours() -> int:
    from acp_launch.cli.stores import outcomes
    from acp_launch.settings.model import Settings

    nowhere = Path(os.devnull)
    found = outcomes(NAMES, Settings(config=nowhere, state=nowhere, cache=nowhere))
    return sum(outcome.state == "found" for outcome in found.values())


def put() -> int:
    from acp_launch.secret.keyring import open_keyring
    from acp_launch.secret.value import Secret
    from acp_launch.settings.model import KeyringSettings

    store = open_keyring(KeyringSettings(), os.environ, interactive=False)
    for name in NAMES:
        store.write(name, Secret(f"value of {name} " + "x" * 40))
    return len(NAMES)


if __name__ == "__main__":
    found = {"ours": ours, "floor": floor, "set": put}[sys.argv[1]]()
    sys.exit(0 if found == len(NAMES) else f"{found} of {len(NAMES)}")
