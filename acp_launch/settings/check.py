"""
The settings read by pydantic-settings: `choices` returns `Choices`, or every Problem at once.

`UserSettings` is made of the fields of `Choices`. Its sources are the variables, before the file, whose `Document`
knows the line of every value; `find_faults` has the rules that shapes cannot express. Pure. Its import takes long, so
it is for settings that were not read before (`load`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ModelWrapValidatorHandler, ValidationError, create_model, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from acp_launch.document.faults import UNKNOWN_KEY, Fault, described, placed, unknown_key
from acp_launch.document.nodes import SETTINGS, Plain, found, section, shorten
from acp_launch.document.scalars import Duration
from acp_launch.document.shape import hints_of, is_shape, shape_at
from acp_launch.document.yaml import Document, parse
from acp_launch.problem import KeyPath, Problem, about, likeliest
from acp_launch.settings.address import Address, read
from acp_launch.settings.model import (
    COMMAND,
    DELIMITER,
    NEARLY,
    NEEDED_SECTIONS,
    PREFIX,
    Choices,
    keys,
    keys_by_variable,
    setter,
)

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# Rules look at raw values and skip any of the wrong type, which the shapes report. So all rules run even when half
# of the settings are wrong.
MIN_SECONDS, MAX_SECONDS = Duration(1), Duration(600)  # a store needs time, and a user does not wait for longer
# Seconds: every printed value stays hidden for the rest of a session, which costs memory; no token lives for longer.
SHORTEST_TTL, LONGEST_TTL = Duration(30), Duration(24 * 3600)
_HEADERS = "headers_command"
_PRINTS = "[my-token-tool, headers]"
_COMMAND, _EXAMPLE = ("secrets", "command"), NEEDED_SECTIONS["command"]


def find_faults(root: Mapping[str, Plain]) -> Iterator[Fault]:
    """Yield a fault for every broken rule; `root` is what the file and the variables say together."""
    secrets = section(root, "secrets")
    yield from _between(("secrets", "timeout"), secrets.get("timeout"), MIN_SECONDS, MAX_SECONDS)
    written = section(secrets, "keyring").get("backend")
    if isinstance(written, str) and not ("." in written and all(part.isidentifier() for part in written.split("."))):
        what = f"expected a keyring backend by its full name, found {found(written)}"
        fix = "write it as keyring.backends.kwallet.DBusKeyring; keyring --list-backends lists them"
        yield Fault(("secrets", "keyring", "backend"), what, fix)
    for key in ("path", "key_file"):
        path = section(secrets, "file").get(key)
        if path == "":
            yield Fault(("secrets", "file", key), "the path is empty", "write a path, or remove the key")
        elif isinstance(path, str) and path.startswith("$"):
            what = f'"{shorten(path)}": acp-launch does not expand variables here'
            yield Fault(("secrets", "file", key), what, "write an absolute path, or ~/NAME")
    if isinstance(command := secrets.get("command"), list):
        yield from _store_command(command)
    for name, example in NEEDED_SECTIONS.items():
        if secrets.get("store") == name and name not in secrets:
            what = f"the store is a {name}, but secrets.{name} is not set"
            yield Fault(("secrets", "store"), what, f"add secrets.{name}: {example}")
    yield from _headers_commands(section(root, _HEADERS))
    if isinstance(registry := root.get("registry"), str):
        yield from _registry(registry)


def _between(path: KeyPath, written: Plain, shortest: Duration, longest: Duration) -> Iterator[Fault]:
    try:
        seconds = Duration.parse(written) if isinstance(written, str) else shortest
    except ValueError:  # the shapes report it
        return
    if not shortest <= seconds <= longest:
        nearest = min(max(seconds, shortest), longest)
        what = f"expected a duration from {shortest} to {longest}, found {found(written)}"
        yield Fault(path, what, f"write {nearest}")


def _words(path: KeyPath, words: Sequence[Plain], example: str) -> Iterator[Fault]:
    if not words:
        yield Fault(path, "the command is empty", f"write a program and its arguments: {example}")
    for index, word in enumerate(words):
        if isinstance(word, str) and not word.strip():
            yield Fault(
                (*path, index),
                "this argument is empty" if index else "the program is empty",
                "remove it" if index else "write the program to start",
            )


def _store_command(words: Sequence[Plain]) -> Iterator[Fault]:
    yield from _words(_COMMAND, words, _EXAMPLE)
    named = [index for index, word in enumerate(words) if isinstance(word, str) and "{name}" in word]
    if words and not named:
        what = "no argument contains {name}, so every secret would get the same value"
        yield Fault(_COMMAND, what, "put {name} where the secret's name belongs")
    if 0 in named:
        # A profile chooses the names of its secrets; with a name such as ../x it would choose the program too.
        what = "the program must not depend on the secret's name, because profiles choose the names"
        yield Fault((*_COMMAND, 0), what, "put {name} in an argument", offset=str(words[0]).index("{name}"))


def _headers_commands(entries: Mapping[str, Plain]) -> Iterator[Fault]:
    known: dict[Address, str] = {}
    for text, entry in entries.items():
        path = (_HEADERS, text)
        try:
            address = read(text)
        except ValueError as unfit:
            fix = "write the address of a server as its profile does, or its beginning: https://mcp.example.com"
            yield Fault(path, str(unfit), fix, at_key=True)
        else:
            if address.is_in_the_clear:
                what = "the headers would be sent unencrypted: the address is http, and its host is not this machine"
                yield Fault(path, what, "write https://, or reach it through a tunnel on localhost", at_key=True)
            if address in known:
                yield Fault(path, f"this is the same address as {known[address]}", "remove one of them", at_key=True)
            known[address] = text
        if isinstance(entry, dict):
            yield from _between((*path, "ttl"), entry.get("ttl"), SHORTEST_TTL, LONGEST_TTL)
            if isinstance(command := entry.get("command"), list):
                yield from _words((*path, "command"), command, _PRINTS)


def _registry(text: str) -> Iterator[Fault]:
    """Check where the index of agents is: an address, or a file wherever the command is typed."""
    if "://" in text:
        try:
            is_in_the_clear = read(text).is_in_the_clear
        except ValueError as unfit:
            yield Fault(("registry",), str(unfit), "write the https address of an index, or the path of a file")
            return
        if is_in_the_clear:
            what = "the address is http, so others on the way could choose what is installed"
            yield Fault(("registry",), what, "write https://")
    elif not text.startswith(("/", "~/")):
        what = f"expected an https address or the full path of a file, found {found(text)}"
        yield Fault(("registry",), what, "write a path that begins with / or ~/")


# Keys of earlier versions, and what to do instead.
_REMOVED: Mapping[tuple[str | int, ...], str] = {
    ("attention", "notify"): "remove it; terminals can show a bell as a notification, and attention.bell is the bell",
    ("attention", "progress"): "remove it; the title shows the state: attention.title",
}


class WrongSettings(Exception):  # noqa: N818 - it holds all of them
    """Raised with every fault of the settings. Not a ValueError, which pydantic would take for one of its own."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        super().__init__()
        self.faults = tuple(faults)


class Variables(EnvSettingsSource):
    """The variables as pydantic-settings reads them, which learns here that a `Shape` has keys."""

    def field_is_complex(self, field: FieldInfo) -> bool:
        return is_shape(field.annotation) or super().field_is_complex(field)

    def next_field(self, field: Any, key: str, case_sensitive: bool | None = None) -> FieldInfo | None:
        if field is None or not is_shape(field.annotation):
            return super().next_field(field, key, case_sensitive)
        hint = hints_of(field.annotation).get(key)
        return None if hint is None else FieldInfo.from_annotation(hint)


class _Sources(BaseSettings):
    model_config = SettingsConfigDict(
        extra="forbid", validate_default=False, env_prefix=PREFIX, env_nested_delimiter=DELIMITER
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *others: PydanticBaseSettingsSource,
        **more: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take the arguments `file` and `variables`, which `load` has read, and of the environment nothing else."""
        given, variables = init_settings(), Variables(settings_cls)
        variables.env_vars = {name.lower(): text for name, text in given["variables"].items()}
        return variables, InitSettingsSource(settings_cls, given["file"])

    @model_validator(mode="wrap")
    @classmethod
    def _with_rules(cls, said: dict[str, Any], handler: "ModelWrapValidatorHandler[_Sources]") -> "_Sources":
        """Add the broken rules to what pydantic finds."""
        faults = list(find_faults(said))
        try:
            found = handler(said)
        except ValidationError as invalid:
            raise WrongSettings([*faults, *map(_fault, invalid.errors(include_url=False))]) from None
        if faults:
            raise WrongSettings(faults)
        return found


_FIELDS: Any = {name: (hint, getattr(Choices(), name)) for name, hint in hints_of(Choices).items()}
UserSettings = create_model("UserSettings", __base__=_Sources, **_FIELDS)


def choices(text: str | None, file: str, variables: Mapping[str, str]) -> tuple[Choices | None, list[Problem]]:
    """
    Return the user's choices and all problems; None instead of the choices if there is a problem.

    `text` is empty without a settings file, and None when the file cannot be read: then only the names of the
    variables are checked.
    """
    faults = {name: problem for name, text in variables.items() if (problem := _unusable(name, text))}
    usable = {name: text for name, text in variables.items() if name not in faults}
    document, problems = parse(text, file, SETTINGS) if text else (None, [])
    if text is None or (problems and not document):
        return None, [*faults.values(), *problems]
    everything = [*faults.values(), *problems]
    try:
        given: dict[str, Any] = {"file": document.root if document else {}, "variables": usable}
        chosen = Choices(**dict(UserSettings(**given)))
    except WrongSettings as found:
        everything += _place(found.faults, document, usable)
    everything.sort(key=lambda problem: (problem.line, problem.column))
    return (None, everything) if everything else (chosen, [])


def _unusable(name: str, text: str) -> Problem | None:
    if name not in keys_by_variable():
        return _unknown(name)  # its value is not shown, since it may be a secret
    if not text.isascii() and text != text.encode(errors="replace").decode():
        return about(name, "this variable does not hold UTF-8 text", "set it in a UTF-8 locale")
    if name == COMMAND and _as_list(text) is None:
        what = f"expected a list in JSON, found {found(text)}"
        return about(name, what, """write it as '["op", "read", "op://dev/{name}/credential"]'""")
    return None


def _unknown(name: str) -> Problem:
    known = {other.partition(DELIMITER)[2]: other for other in keys_by_variable()}
    key = name.removeprefix(NEARLY).lstrip("_").upper()
    if nearest := likeliest(key, known):
        what, fix = f"unknown setting; did you mean {known[nearest]}?", f"rename it to {known[nearest]}"
        return about(name, what, fix)
    fix = f"unset {name}; to give a secret's value, set ACP_LAUNCH_SECRET_{key}"
    return about(name, "unknown setting", fix)


def _as_list(text: str) -> list[Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _fault(error: "ErrorDetails") -> Fault:
    path = error["loc"]
    if error["type"] not in UNKNOWN_KEY:
        return described(error, (), Choices)
    if fix := _REMOVED.get(path):
        return Fault(path, f'"{path[-1]}" was removed', fix, at_key=True)
    homes = (key[:depth] for depth in (1, 2, 3) for key in keys())
    if home := next((home for home in homes if home[-1] == path[-1]), None):  # `store` at the top
        meant = ".".join(home)
        return Fault(path, f'unknown key "{path[-1]}"; did you mean {meant}?', f"move it to {meant}", at_key=True)
    return unknown_key(path, shape_at(Choices, path[:-1]).__struct_fields__)


def _place(faults: Iterable[Fault], document: Document | None, variables: Mapping[str, str]) -> Iterator[Problem]:
    for fault in dict.fromkeys(faults):
        if name := setter(fault.path, variables):
            yield about(name, fault.message, fault.fix)
        else:
            assert document, f"a default is wrong: {fault}"
            yield from placed(document, [fault])
