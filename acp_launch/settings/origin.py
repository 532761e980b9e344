"""Each setting with its value and where that comes from, for `config`."""

import os
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from acp_launch.document.nodes import SETTINGS
from acp_launch.document.yaml import parse
from acp_launch.settings.load import directory, file_text, load, present
from acp_launch.settings.model import Key, keys, keys_by_variable, setter

DEFAULT = "default"
DIRECTORIES = ("CONFIG", "STATE", "CACHE")


class SettingOrigin(Struct, frozen=True, kw_only=True):
    """A setting. `value` is as JSON has it, None if it is not set.

    `source` is `default`, a variable's name, or `file:line`; `variable` is the one that can set it, if any.
    """

    key: str
    value: Any
    source: str
    variable: str | None


class DirectoryOrigin(Struct, frozen=True, kw_only=True):
    """A directory of acp-launch; `source` is `default` or the variable that chose it."""

    name: str
    path: str
    source: str


def origins(file: Path) -> list[SettingOrigin]:
    """Return every setting as it counts now.

    Raises:
        SettingsError: the settings are wrong; every problem is listed.
    """
    chosen, variables, places = load(), present(), _places(file)
    named = {key: name for name, key in keys_by_variable().items()}
    return [
        SettingOrigin(
            key=".".join(key),
            value=None
            if (value := attrgetter(".".join(key))(chosen)) in ((), {})
            else to_builtins(value, enc_hook=str),
            source=setter(key, variables) or places.get(key, DEFAULT),
            variable=named.get(key),
        )
        for key in keys()
    ]


def directories() -> list[DirectoryOrigin]:
    """Return the directories, which the environment alone chooses."""
    names = {kind: f"ACP_LAUNCH_{kind}_DIR" for kind in DIRECTORIES}
    return [
        DirectoryOrigin(name=kind.lower(), path=str(directory(kind)), source=name if os.environ.get(name) else DEFAULT)
        for kind, name in names.items()
    ]


def _places(file: Path) -> Mapping[Key, str]:
    text, _ = file_text(file)
    document, _ = parse(text, str(file), SETTINGS) if text else (None, [])
    table = document.positions.table if document else {}
    return {key: f"{file}:{table[key][3]}" for key in keys() if key in table}
