"""
What settings must keep to beyond the shape of their values. Pure.

Each rule looks at raw values and passes over what has the wrong type: `user` speaks of that. So all of them run even
when half of the settings are wrong.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from acp_launch.document.duration import Duration
from acp_launch.document.faults import Fault
from acp_launch.document.nodes import Plain, found

SHORTEST, LONGEST = Duration(1), Duration(600)  # seconds; a store needs some, and nobody waits for longer
_PLACEHOLDER = re.compile(r"(\$?)\{\s*([A-Za-z_][A-Za-z0-9_.:/-]*)?\s*\}")
_COMMAND, _EXAMPLE = ("secrets", "command"), '[op, read, "op://dev/{name}/credential"]'


def broken(root: Mapping[str, Plain]) -> Iterator[Fault]:
    """Every rule the settings break; `root` is what the file and the variables say together."""
    secrets = _mapping(root, "secrets")
    yield from _timeout(secrets.get("timeout"))
    yield from _backend(_mapping(secrets, "keyring").get("backend"))
    for key in ("path", "key_file"):
        if _mapping(secrets, "file").get(key) == "":
            yield Fault(("secrets", "file", key), "the path is empty", "write a path, or remove the key")
    if isinstance(command := secrets.get("command"), list):
        yield from _command(command)
    elif secrets.get("store") == "command" and "command" not in secrets:
        what = "the store is a command, and there is no command that prints a secret"
        yield Fault(("secrets", "store"), what, f"add secrets.command: {_EXAMPLE}")


def _mapping(owner: Mapping[str, Plain], key: str) -> Mapping[str, Plain]:
    value = owner.get(key)
    return value if isinstance(value, dict) else {}


def _timeout(written: Plain) -> Iterator[Fault]:
    try:
        seconds = Duration.parse(written) if isinstance(written, str) else SHORTEST
    except ValueError:  # `user` reports it
        return
    if not SHORTEST <= seconds <= LONGEST:
        nearest = min(max(seconds, SHORTEST), LONGEST)
        what = f"expected a duration from {SHORTEST} to {LONGEST}, found {found(written)}"
        yield Fault(("secrets", "timeout"), what, f"write {nearest}")


def _backend(written: Plain) -> Iterator[Fault]:
    if isinstance(written, str) and not ("." in written and all(part.isidentifier() for part in written.split("."))):
        what = f"expected a keyring backend by its full name, found {found(written)}"
        fix = "write it as keyring.backends.kwallet.DBusKeyring; keyring --list-backends shows those there are"
        yield Fault(("secrets", "keyring", "backend"), what, fix)


def _command(words: Sequence[Plain]) -> Iterator[Fault]:
    if not words:
        yield Fault(_COMMAND, "the command is empty", f"write a program and its arguments: {_EXAMPLE}")
        return
    texts = [(index, word) for index, word in enumerate(words) if isinstance(word, str)]
    for index, word in texts:
        yield from _word((*_COMMAND, index), word)
    if all("{name}" not in word for _, word in texts):
        what = "no argument holds {name}: the answer would be the same for every secret"
        yield Fault(_COMMAND, what, "put {name} where the secret's name belongs")


def _word(path: tuple[str | int, ...], word: str) -> Iterator[Fault]:
    if not word.strip():
        what, fix = ("the program", "write the program to start") if path[-1] == 0 else ("this argument", "remove it")
        yield Fault(path, f"{what} is empty", fix)
    if path[-1] == 0 and "{name}" in word:
        # A profile names its secrets: with a name such as ../x it would name the program, too.
        what = "the program cannot depend on the secret's name, for profiles choose that"
        yield Fault(path, what, "put {name} in an argument", offset=word.index("{name}"))
    for written in _PLACEHOLDER.finditer(word):
        if _is_mistaken(written):
            what = f"unknown placeholder {written[0]}; did you mean {{name}}?"
            yield Fault(path, what, "write {name}", offset=written.start())


def _is_mistaken(written: re.Match[str]) -> bool:
    """`${HOME}` is a shell's business; `${name}` and references as in profiles are nobody's here."""
    dollar, inside = written[1], written[2] or ""
    if dollar:
        return inside == "name" or ":" in inside
    return written[0] != "{name}"
