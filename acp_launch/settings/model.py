"""
Settings that only the user can choose, not a project (docs/settings.md "Settings"): their values, and the environment
variables that are settings. Imports little; `check` reads them with pydantic-settings.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import field

from acp_launch.document.scalars import Duration, Size
from acp_launch.document.shape import Shape

# The longest line seen from a real agent has 569 kB; acpx stops at 64 MiB, the TypeScript SDK at 32 MiB.
MAX_LINE = Size(64 * 1024 * 1024)  # bytes
_DEFAULT_TIMEOUT = Duration(10)
_LONG_TIMEOUT = Duration(10)
_TTL = Duration(300)  # seconds


StoreName = Literal["keyring", "file", "command"]  # each with a row of `secret.stores.STORES`
# Stores that need the section of their name in `secrets`, with an example of it.
NEEDED_SECTIONS: Mapping[StoreName, str] = {"command": '[op, read, "op://dev/{name}/credential"]'}


class KeyringSettings(Shape, frozen=True, kw_only=True):
    backend: str | None = None
    """A backend of the keyring library by its full name; a plaintext one is used only when it is named here."""


class FileSettings(Shape, frozen=True, kw_only=True):
    path: str | None = None
    """The sealed file; default: `secrets.sealed` in the configuration directory."""
    key_file: str | None = None
    """A file whose content unlocks it, instead of a passphrase."""


class SecretSettings(Shape, frozen=True, kw_only=True):
    store: StoreName = "keyring"
    """Where secrets are stored. If it fails, no other store is tried."""
    timeout: Duration = _DEFAULT_TIMEOUT
    """The longest wait for the store."""
    keyring: KeyringSettings = field(default_factory=KeyringSettings)
    file: FileSettings = field(default_factory=FileSettings)
    command: tuple[str, ...] = ()
    """A program and its arguments that print a secret; `{name}` in them is the secret's name."""


class AttentionSettings(Shape, frozen=True, kw_only=True):
    """How the user's attention is called in an interactive session."""

    bell: bool = True
    """Whether the bell rings when a question waits, or a long turn ends."""
    after: Duration = _LONG_TIMEOUT
    """A turn that took longer rings when it ends."""
    title: bool = True
    """Whether the window's title shows state, profile and session."""


class HeadersCommand(Shape, frozen=True, kw_only=True):
    """A command that prints headers for a remote MCP server."""

    command: tuple[str, ...]
    """A program and its arguments that print the headers as a JSON object."""
    ttl: Duration = _TTL
    """How long the printed headers are used."""


class BatchSettings(Shape, frozen=True, kw_only=True):
    """How batches are carried out."""

    insecure_scheduler: bool = False
    """Whether `--engine dask:ADDRESS` may be a scheduler without TLS."""


class Choices(Shape, frozen=True, kw_only=True):
    """All choices of `config.yaml` and the variables."""

    max_line: Size = MAX_LINE
    """The longest message that is accepted from an agent."""
    secrets: SecretSettings = field(default_factory=SecretSettings)
    """Where secrets are stored."""
    attention: AttentionSettings = field(default_factory=AttentionSettings)
    """How the user's attention is called in an interactive session."""
    headers_command: Mapping[str, HeadersCommand] = field(default_factory=dict)
    """Which commands print headers for remote MCP servers, by the servers' addresses (`address`)."""
    batch: BatchSettings = field(default_factory=BatchSettings)
    """How batches are carried out."""
    hangup: Literal["detach", "stop"] | None = None
    """What becomes of a host's turn when its terminal closes; None: it goes on if `up` started the host."""
    registry: str | None = None
    """The address, or the file, of the index of agents; None: the ACP registry's."""
    notify_command: tuple[str, ...] = ()
    """A program and its arguments that are run when a question waits in a host without a terminal. `{profile}` and
    `{session}` in an argument are their names."""


class Settings(Choices, frozen=True, kw_only=True):
    """
    The choices, and the directories. Directories come from the environment alone: `config.yaml` lies in one of them.

    A directory may not exist yet; the code that writes to it creates it, for the user alone.
    """

    config: Path
    state: Path
    cache: Path


# Environment variables: `ACP_LAUNCH_MAX_LINE`, `ACP_LAUNCH_SECRETS__KEY` for that section, those of the directories.


PREFIX, DELIMITER = "ACP_LAUNCH_", "__"
NEARLY = f"{PREFIX}SECRETS_"  # one underscore too few, or a secret with one letter too many
Key = tuple[str, ...]


def _keys(section: Shape, above: Key = ()) -> Iterator[Key]:
    for name in section.__struct_fields__:
        value, key = getattr(section, name), (*above, name)
        yield from _keys(value, key) if isinstance(value, Shape) else (key,)


@cache
def keys() -> tuple[Key, ...]:
    """Return the keys of all settings, in the order of the model."""
    return tuple(_keys(Choices()))


@cache
def keys_by_variable() -> Mapping[str, Key]:
    """Return the names of the variables, each with the key that it sets."""
    chosen = (key for key in keys() if key[0] == "secrets" or key in _BY_VARIABLE)
    return {PREFIX + DELIMITER.join(key).upper(): key for key in chosen}


_BY_VARIABLE = {("max_line",), ("registry",), ("batch", "insecure_scheduler")}
COMMAND = f"{PREFIX}SECRETS{DELIMITER}COMMAND"


def setter(where: tuple[str | int, ...], given: Mapping[str, str]) -> str | None:
    """Return the variable that set the value at this path; None if none did."""
    return next((name for name, key in keys_by_variable().items() if name in given and where[: len(key)] == key), None)
