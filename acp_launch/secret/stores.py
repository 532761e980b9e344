"""
The secret stores: a row of `STORES` for each name that `secrets.store` may have, with all that differs between them.

Whatever depends on the chosen store asks its row, so a name without a row is an error of `mypy` and of the import. The
modules of a store are imported when it is opened.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import assert_never, get_args

from msgspec import Struct

from acp_launch.secret.command import Captured, CommandStore
from acp_launch.secret.keyring import Keyring
from acp_launch.secret.sealedfile import open_file
from acp_launch.secret.value import Store
from acp_launch.settings.model import SecretSettings, StoreName


class Opening(Struct, frozen=True, kw_only=True):
    """What a store is opened with.

    `ask` asks for a passphrase, and returns None if the user cannot be asked. `run` runs a program for so many seconds.
    `interactive`: a user is there to answer a dialog of the desktop.
    """

    settings: SecretSettings
    config: Path
    environ: Mapping[str, str]
    ask: Callable[[str], str | None]
    run: Callable[[Sequence[str], float], Captured]
    interactive: bool


class StoreKind(Struct, frozen=True, kw_only=True):
    """What the program knows of a store before it is opened.

    `index_name` distinguishes its secrets from other stores', by the settings and the label of the opened
    store. `example` is how config.yaml chooses it, for a user without a keyring, and `is_called` what it then is.
    """

    open: Callable[[Opening], Store]
    index_name: Callable[[SecretSettings, str], str]
    example: str = ""
    is_called: str = ""
    is_read_only: bool = False  # it alone knows what it holds, and nothing is stored or offered to be stored
    unlisted: str = "it is asked for each secret"  # what `doctor` says if it cannot list its names now
    is_desktop: bool = False  # it may show a dialog of the desktop, and may be absent from a machine
    argv: Callable[[SecretSettings], Sequence[str]] | None = None  # of the program that it runs for each secret


def _kind(name: StoreName) -> StoreKind:
    match name:
        case "keyring":
            return StoreKind(open=_open_keyring, index_name=_name_keyring, is_desktop=True)
        case "file":
            return StoreKind(
                open=_open_file,
                index_name=lambda chosen, label: label,
                example="{store: file}",
                is_called="an encrypted file, opened by a passphrase or a key file",
                unlisted="it asks for its passphrase when needed",
            )
        case "command":
            return StoreKind(
                open=_open_command,
                index_name=lambda chosen, label: "command",
                example='{store: command, command: [pass, show, "acp-launch/{name}"]}',
                is_called="a program that prints it",
                is_read_only=True,
                argv=lambda chosen: chosen.command,
            )
        case _:
            assert_never(name)


def _open_keyring(given: Opening) -> Store:
    return Keyring(given.settings.keyring, given.environ, interactive=given.interactive)


def _name_keyring(chosen: SecretSettings, label: str) -> str:
    backend = chosen.keyring.backend or os.environ.get("PYTHON_KEYRING_BACKEND", "")
    return f"keyring {backend}".strip()


def _open_file(given: Opening) -> Store:
    return open_file(given.settings.file, given.config, given.environ, given.ask)


def _open_command(given: Opening) -> Store:
    return CommandStore(given.settings.command, limit=given.settings.timeout, run=given.run)


STORES: Mapping[StoreName, StoreKind] = {name: _kind(name) for name in get_args(StoreName)}


def chosen_kind(settings: SecretSettings) -> StoreKind:
    return STORES[settings.store]
