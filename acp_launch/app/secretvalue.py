"""
The name and value of a secret as the user gives them, and the profiles that need each secret.

`check_name` validates a name, `read_value` reads a value from a prompt, stdin or variable, `put` stores it, and `uses`
lists the needs.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from acp_launch.app.spec import find_profile, usable_profiles
from acp_launch.console.ask.viewport import screen
from acp_launch.console.stderr import YELLOW, harmless, say, tell
from acp_launch.console.stdout import fit
from acp_launch.errors import UsageError
from acp_launch.plan.model import Need, needs
from acp_launch.problem import COLUMNS, ours
from acp_launch.profile.load import inspect_all, load, shown
from acp_launch.secret.detect import sightings
from acp_launch.secret.forms import MIN_FORM_CHARS, is_maskable
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import MAX_VALUE, NAME, Secret, is_login, size, variable
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.app.stores import Vault

MAX_NAME_CHARS = 200
VARIABLE = "[A-Za-z_][A-Za-z0-9_]*"  # what a shell can read


def check_name(name: str) -> str:
    """Return the name if it is valid.

    Raises:
        UsageError: it is not valid. The message does not repeat a text that may be a value.
    """
    if looks := next((seen.what for seen in sightings(name) if seen.certainty == "certain"), ""):
        raise UsageError(
            f"this looks like {looks}, not like a secret's name; nothing was stored",
            fix="acp-launch secret set NAME asks for the value; rotate the one you just typed",
        )
    if is_login(name):
        fix = "acp-launch mcp status PROFILE shows it, acp-launch mcp logout PROFILE removes it"
        raise UsageError(f'"{name}" holds the tokens of a login', fix=fix)
    if re.fullmatch(NAME, name) and len(name) <= MAX_NAME_CHARS and {".", ".."}.isdisjoint(name.split("/")):
        return name
    shown = f'"{name}" is' if re.fullmatch(r"[\w ./-]{1,40}", name) else "this is"
    raise UsageError(
        f"{shown} not a secret's name",
        fix="choose letters, digits, _ . and -, with / between parts: acp-launch secret set team/github",
    )


def refuse_words(words: Sequence[str]) -> None:
    """Refuse a value among the arguments: it was visible in `ps`, and is in the shell's history."""
    if words:
        raise UsageError(
            "a secret is not read from the command line, where ps and your shell's history show it; nothing was stored",
            fix="type it at the prompt, or pipe it: pass show github | acp-launch secret set github;"
            " rotate the value you just typed",
        )


def read_value(name: str, from_variable: str | None) -> Secret:
    """Read the value from the variable, from stdin if it is piped, or from a hidden prompt.

    Raises:
        UsageError: there is no value, or it cannot be a secret.
    """
    is_terminal = sys.stdin is None or sys.stdin.isatty()
    text = _read_variable(from_variable) if from_variable else _ask(name) if is_terminal else _read_stdin()
    if not text:
        raise UsageError(
            "the value is empty; nothing was stored", fix="give a value; acp-launch secret rm NAME removes one"
        )
    return _fit(text)


def ask_value(name: str, needs: Iterable[Need]) -> Secret | None:
    """Read the value from a hidden prompt, which says for which of `needs` it is; None if the user leaves it empty.

    Raises:
        UsageError: it cannot be a secret.
    """
    text = _ask(name, [need.origin.path for need in needs if need.name == name])
    return _fit(text) if text else None


def put(vault: "Vault", name: str, value: Callable[[], Secret | None]) -> Secret | None:
    """Store a secret and return it; None if there is no value.

    `value` is called once the store can be written, so that the user types nothing in vain.

    Raises:
        SecretError: the store cannot be written.
        UsageError: the value cannot be a secret.
    """
    failed = f'cannot store secret "{name}"'
    vault.do(failed, lambda: vault.store.names(), writing=name)  # the store may change
    if (secret := value()) is None:
        return None
    vault.write(name, secret, failed)
    say(f"{name}: stored in the {vault.store.label}")
    warn(name, secret, vault.index.names())
    return secret


def _fit(text: str) -> Secret:
    redactor.register(secret := Secret(text))
    if "\0" in text:
        raise UsageError("the value holds a NUL character, which no variable can", fix="give text")
    if (held := size(text)) is None:
        raise UsageError("the value is not UTF-8 text", fix="give text, base64 for instance")
    if held > MAX_VALUE:
        raise UsageError(
            f"the value is longer than {MAX_VALUE // 1024} KiB",
            fix="store it in a file, and the file's path as the secret",
        )
    return secret


def warn(name: str, secret: Secret, others: Iterable[str]) -> None:
    """Warn of a value that the user may not have meant; `others` are the names in the store."""
    text = secret.expose()
    said = []
    if not is_maskable(text):
        said.append(f"{name} is shorter than {MIN_FORM_CHARS} characters: it cannot be masked in logs and errors")
    if text != text.strip():
        said.append(f"the value of {name} begins or ends with a space or a line break")
    if any(not (mark.isprintable() or mark in "\n\r\t") for mark in text):
        said.append(f"the value of {name} contains invisible characters")
    if twins := [other for other in others if other != name and variable(other) == variable(name)]:
        said.append(f"{variable(name)} would override {', '.join(sorted(twins))}, too")
    if os.environ.get(variable(name)):
        said.append(f"{variable(name)} is set in this shell and overrides the stored value")
    for warning in said:
        tell(f"warning: {warning}", style=YELLOW)


def _read_variable(name: str) -> str:
    if name in os.environ:
        return os.environ[name]
    if re.fullmatch("[A-Z_][A-Z0-9_]{0,63}", name):  # any other text may be a value, as after a stray $
        raise UsageError(f"variable {name} is not set", fix=f"export {name}=..., or leave --from-env away")
    raise UsageError("--from-env: the variable is not set", fix="give its name, without a $: --from-env GITHUB_TOKEN")


def _ask(name: str, places: Sequence[str] = ()) -> str:
    from acp_launch.secret.hidden_input import ask_hidden

    what = f'value of the secret "{name}"'
    if places:
        what += f" ({harmless(', '.join(dict.fromkeys(places)), keep='')})"
    prompt = f"{fit(what, screen()[0] - COLUMNS - 3)}: "  # in one row of the terminal
    text = ask_hidden(prompt, fix=f"pipe it in: acp-launch secret set {name} < FILE")
    if text is None:
        raise UsageError("there is no terminal to ask on", fix=f"pipe the value: ... | acp-launch secret set {name}")
    return text


def _read_stdin() -> str:
    raw = sys.stdin.buffer.read(MAX_VALUE + 3)  # the line break, and one more than allowed
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise UsageError("the value on stdin is not UTF-8 text", fix="give text, base64 for instance") from None
    return re.sub(r"\r?\n\Z", "", text)


# The profiles' needs for secrets.


class Uses(Struct, frozen=True):
    """Every need with the name of its profile, in order of discovery, then of lines."""

    all: tuple[tuple[str, Need], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(need.name for _, need in self.all))

    @property
    def needs(self) -> tuple[Need, ...]:
        return tuple(need for _, need in self.all)

    def of(self, secret: str) -> tuple[str, ...]:
        """List the profiles that need a secret."""
        return tuple(dict.fromkeys(profile for profile, need in self.all if need.name == secret))


def uses(settings: Settings, profiles: Sequence[str] = ()) -> Uses:
    """Collect the needs of these profiles; by default of all that can be named from here, without broken ones.

    Raises:
        UsageError, ProfileError: a named profile does not exist, or is wrong.
    """
    found = [load(find_profile(name, settings), cache=settings.cache) for name in profiles]
    for each, loaded, _ in inspect_all(() if profiles else usable_profiles(settings), cache=settings.cache):
        if loaded is not None:
            found.append(loaded)
        else:
            file = shown(each.file)
            tell(f"{file} has problems and is skipped: {ours('validate', str(file))}", style=YELLOW)
    return Uses(tuple((loaded.found.name, need) for loaded in found for need in needs(loaded)))
