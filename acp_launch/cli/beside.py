"""What `init` writes: the profile, and beside it the schema for editors and the .gitignore; all of it or nothing."""

import json
from contextlib import suppress
from pathlib import Path

from acp_launch.console.interop import warn
from acp_launch.interop import files
from acp_launch.profile.begin import SCHEMA, ignoring
from acp_launch.profile.load import read, shown

OURS = "acp-launch profile"  # the title of the schema


class Beside:
    """The directory of a new profile. `is_shared`: others may have it from a repository."""

    def __init__(self, directory: Path, *, is_shared: bool) -> None:
        self._directory = directory
        self._is_shared = is_shared
        self._schema = directory / SCHEMA

    @property
    def schema(self) -> str:
        """As the profile can name it; empty when the schema cannot be there."""
        if not self._is_ours():
            return ""
        return f"{self._directory.name}/{SCHEMA}" if self._is_shared else str(self._schema)

    def write(self, file: Path, text: str) -> None:
        """
        Raises:
            UsageError: something cannot be written, and nothing was.
        """
        is_new = not self._directory.exists()
        made: list[Path] = []
        try:
            for path, content in self._everything(file, text):
                old = _text(path)
                if old is None:
                    made.append(path)
                if old != content:
                    files.put(path, content, instead_of=old)
        except BaseException:
            self._take_back(made, is_new=is_new)
            raise

    def _everything(self, file: Path, text: str) -> list[tuple[Path, str]]:
        """The profile comes last: with it, everything is there."""
        from acp_launch.profile.schema import text as schema

        found = [(self._schema, schema())] if self.schema else []
        ignore = self._directory / ".gitignore"
        if self._is_shared and not _is_file_or_nothing(ignore):
            warn(f"{shown(ignore)} is no plain file and stays as it is; it should name *.local.yaml")
        elif self._is_shared:
            found.append((ignore, ignoring(_text(ignore))))
        return [*found, (file, text)]

    def _is_ours(self) -> bool:
        """Whether it can be written: it is not there, or an older one of ours."""
        if not _is_file_or_nothing(self._schema):
            return False
        text = _text(self._schema)
        try:
            return text is None or json.loads(text).get("title") == OURS
        except (ValueError, AttributeError, RecursionError):
            return False

    def _take_back(self, made: list[Path], *, is_new: bool) -> None:
        for path in made:
            path.unlink(missing_ok=True)
        if is_new:
            with suppress(OSError):  # somebody else put something there meanwhile
                self._directory.rmdir()


def _is_file_or_nothing(path: Path) -> bool:
    return not path.is_symlink() and (path.is_file() or not path.exists())


def _text(path: Path) -> str | None:
    if not path.exists():
        return None
    text, problems = read(path)
    return text if not problems else ""
