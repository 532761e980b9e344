"""
What one file says under `extends`: each entry with its place, or what is wrong with it. Pure; nothing is looked up.

An entry is a name or a path that begins with ./ or ../ and is relative to the file. A path that is absolute, or begins
with ~, is refused: a profile is shared, and on another machine such a path leads elsewhere or nowhere.
"""

import re
from collections.abc import Iterator

from acp_launch.document.faults import Fault
from acp_launch.document.keypath import KeyPath
from acp_launch.document.nodes import Plain, found, number_text, shorten

KEY = "extends"
MAX_ENTRIES = 63
ENTRY = r"^(?:\.\.?/[^\\$]+|[^./\\$~][^/\\$]*)$"  # as far as a pattern can tell
_PATH = re.compile(r"\.\.?(?:/|$)")  # no name begins with a dot
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")
_ELSEWHERE = "copy the file beside this one and write ./NAME.yaml, or put it among your own profiles and write its name"


def entries(written: Plain) -> list[tuple[KeyPath, str]]:
    """Each entry with its place in the document; those with a fault, too."""
    if isinstance(written, str):
        return [((KEY,), written)]
    items = enumerate(written) if isinstance(written, list) else ()
    return [((KEY, index), item) for index, item in items if isinstance(item, str)]


def faults(written: Plain) -> Iterator[Fault]:
    """Everything wrong with the value of `extends`, short of looking for the files."""
    if not isinstance(written, str | list):
        yield _misplaced((KEY,), "a profile's name, a ./path or a list of them", written)
    elif not written:
        yield Fault((KEY,), "this names no profile to extend", "name one, or remove the key")
    elif isinstance(written, list) and len(written) > MAX_ENTRIES:
        what = f"{len(written):,} profiles to extend; at most {MAX_ENTRIES} are allowed"
        yield Fault((KEY,), what, "put what they share into one")
    else:
        for index, item in enumerate(written) if isinstance(written, list) else ():
            if not isinstance(item, str):
                yield _misplaced((KEY, index), "a profile's name or a ./path", item)
        for path, entry in entries(written):
            if fault := _fault(entry):
                yield Fault(path, *fault)


def _misplaced(path: KeyPath, expected: str, value: Plain) -> Fault:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fix = f'quote it: "{number_text(value)}"' if number else "write the name of a profile, or remove the key"
    return Fault(path, f"expected {expected}, found {found(value)}", fix)


def _fault(entry: str) -> tuple[str, str] | None:
    """What is wrong with one entry, and what to do."""
    quoted = f'"{shorten(entry)}"'
    if not entry.strip():
        return "this names no profile to extend", "name one, or remove the key"
    if not entry.isprintable():
        return f"{quoted} holds characters that cannot be printed", "write a profile's name or a ./path"
    if "$" in entry:
        return f"{quoted}: no references are filled in here", "write a profile's name or a ./path"
    if entry.startswith("~"):
        return f"{quoted} leads to another place for every user, and a profile is shared", _ELSEWHERE
    if _ABSOLUTE.match(entry):
        return f"{quoted} is absolute: on another machine there is no such file", _ELSEWHERE
    return _misspelt(entry, quoted)


def _misspelt(entry: str, quoted: str) -> tuple[str, str] | None:
    if "\\" in entry:
        return f"{quoted} holds a backslash", f"write {entry.replace(chr(92), '/')}"
    stem = re.sub(r"\.ya?ml$", "", entry)
    if stem.endswith(".local"):
        return f"{quoted} overlays a profile for one person; nothing extends it", "write the profile it overlays"
    if _PATH.match(entry) or (stem == entry and "/" not in entry and not entry.startswith(".")):
        return None
    return f"{quoted} is neither a profile's name nor a ./path", f"write ./{entry}"
