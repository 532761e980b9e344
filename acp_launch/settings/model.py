"""
What a user can choose, and no project can (README "Settings"). Pure, and free of imports that cost.

The sections below `Settings` are plain dataclasses: `settings.user` lets pydantic-settings fill them, but somebody
without a settings file needs neither.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from acp_launch.document.duration import Duration
from acp_launch.settings.size import Size

# The longest line seen from a real agent is 569 kB; acpx stops at 64 MiB, the TypeScript SDK at 32.
MAX_LINE = Size(64 * 1024 * 1024)  # bytes
STRICT: dict[str, Any] = {"extra": "forbid"}  # pydantic's configuration, without pydantic
_PATIENCE = Duration(10)  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyringSettings:
    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    backend: str | None = None
    """A backend of the keyring library by its full name; a plaintext one is used only when it is named here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    path: str | None = None
    """The sealed file; default: `secrets.sealed` in the configuration directory."""
    key_file: str | None = None
    """A file whose content opens it, instead of a passphrase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSettings:
    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    store: Literal["keyring", "file", "command"] = "keyring"
    """Where secrets are kept. There is no second one that is tried when it fails."""
    timeout: Duration = _PATIENCE
    """Longest wait for the store."""
    keyring: KeyringSettings = field(default_factory=KeyringSettings)
    file: FileSettings = field(default_factory=FileSettings)
    command: tuple[str, ...] = ()
    """A program and its arguments that print a secret; `{name}` in them is the secret's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """All that `config.yaml` and the variables may say."""

    max_line: Size = MAX_LINE
    """Longest message we accept from an agent."""
    secrets: SecretSettings = field(default_factory=SecretSettings)
    """Where secrets are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Choices):
    """
    The choices, and the directories: those come from the environment alone, for `config.yaml` lies in one of them.

    A directory may not exist yet; whoever writes creates it, for the user alone.
    """

    config: Path
    state: Path
    cache: Path
