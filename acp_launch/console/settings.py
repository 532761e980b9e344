"""The output of `config`: each setting, its value and where it comes from. Credentials in values are masked."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from acp_launch.console import stdout
from acp_launch.console.stderr import DIM, harmless_line, say
from acp_launch.console.stdout import columns
from acp_launch.secret.detect import masked
from acp_launch.settings.origin import DirectoryOrigin, SettingOrigin

HEADINGS = ("SETTING", "VALUE", "FROM")
UNSET = "(not set)"


def show(
    file: Path,
    settings: Sequence[SettingOrigin],
    directories: Sequence[DirectoryOrigin],
    *,
    width: int | None,
    as_json: bool,
) -> None:
    if as_json:
        stdout.put_json(_json(file, settings, directories))
        return
    rows = [
        HEADINGS,
        *((each.key, masked(_text(each.value)), each.source) for each in settings),
        *((f"directory: {each.name}", each.path, each.source) for each in directories),
    ]
    for line in columns(rows, width=width, ends=[1], starts=[2]):
        stdout.line(harmless_line(line))
    there = "" if file.exists() else ", which does not exist yet"
    edit = "to edit it: acp-launch config edit; about all settings: acp-launch help settings"
    say(harmless_line(f"the file is {file}{there}; {edit}"), style=DIM)


def _text(value: Any) -> str:
    if value is None:
        return UNSET
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_entry(item)}" for key, item in value.items())
    if isinstance(value, tuple):
        return shlex.join(map(str, value))
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _entry(value: Any) -> str:
    return ", ".join(f"{key} {_text(item)}" for key, item in value.items()) if isinstance(value, dict) else _text(value)


def _json(file: Path, settings: Sequence[SettingOrigin], directories: Sequence[DirectoryOrigin]) -> dict[str, Any]:
    def as_json(value: Any) -> Any:
        if isinstance(value, tuple):
            return [as_json(item) for item in value]
        if isinstance(value, dict):
            return {key: as_json(item) for key, item in value.items()}
        return masked(value) if isinstance(value, str) else value

    listed = [{**asdict(each), "value": as_json(each.value)} for each in settings]
    places = [asdict(each) for each in directories]
    return {"file": str(file), "exists": file.exists(), "settings": listed, "directories": places}
