"""Backends of the keyring library behind the store: whatever they do has one of the store's outcomes."""

import io
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from keyring.errors import InitError, KeyringError, KeyringLocked, NoKeyringError, PasswordDeleteError, PasswordSetError

from acp_launch.oauth.grant import MAX_GRANT_BYTES
from acp_launch.secret.keyring import Keyring
from acp_launch.secret.value import MAX_VALUE, Outcome, Secret, State, Store, StoreFault
from acp_launch.settings.model import KeyringSettings
from tests.secret.backends import Listening, Memory, Raising, acp_launch

HERE = "tests.secret.backends"
TOKEN = Secret("ghp_0123456789")
UNSAID = "; its text is not shown, as it may hold the value"
CHOOSE = "remove secrets.keyring.backend in your settings, or name another one there"


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield
    Memory.items.clear()
    Listening.heard.clear()


def store(backend: str) -> Store:
    return Keyring(KeyringSettings(backend=f"{HERE}.{backend}"), {}, interactive=False)


def label(backend: str) -> str:
    return f"keyring ({HERE}.{backend})"


def test_a_value_is_set_read_replaced_and_removed() -> None:
    memory = store("Memory")
    memory.write("github", Secret("old"))
    memory.write("github", TOKEN)
    assert Memory.items == {("acp-launch", "github"): "ghp_0123456789"}
    assert memory.read(["github", "other"]) == {
        "github": Outcome("found", label("Memory"), TOKEN),
        "other": Outcome("missing", label("Memory")),
    }
    assert memory.remove("github") is True
    assert memory.remove("github") is False
    assert Memory.items == {}


def test_the_tokens_of_a_login_are_an_item_like_others() -> None:
    name, tokens = "oauth/mcp.example.com:8443/0123456789abcdef", Secret("x" * MAX_GRANT_BYTES)
    memory = store("Memory")
    memory.write(name, tokens)
    assert memory.read([name]) == {name: Outcome("found", label("Memory"), tokens)}
    assert memory.remove(name)


def test_the_library_cannot_list() -> None:
    assert store("Memory").names() is None


def test_a_list_fails_when_the_backend_cannot_be_used() -> None:
    """`secret set` asks for it before it asks a person for a value."""
    with pytest.raises(StoreFault) as raised:
        store("Nobody").names()
    place = f"{HERE}.Nobody (chosen by secrets.keyring.backend in your settings)"
    assert raised.value.reason == f"the keyring backend {place} does not exist: there is no such class"
    in_the_open = Keyring(KeyringSettings(), {"PYTHON_KEYRING_BACKEND": f"{HERE}.Openly"}, interactive=False)
    with pytest.raises(StoreFault, match="stores secrets in plain text"):
        in_the_open.names()


def test_a_value_over_the_limit_is_refused_before_the_backend_is_asked() -> None:
    with pytest.raises(StoreFault) as raised:
        store("no_such_backend").write("github", Secret("x" * (MAX_VALUE + 1)))
    assert raised.value.state == "too large"


def test_a_backend_that_gives_no_text_is_said() -> None:
    outcome = store("Quoting").read(["github"])["github"]
    assert (outcome.state, outcome.secret) == ("unavailable", None)
    assert outcome.reason == f"the {label('Quoting')} gave bytes instead of text"


FAILURES: list[tuple[BaseException, State, str]] = [
    (KeyringLocked("Failed to unlock the collection!"), "locked", "is locked: Failed to unlock the collection!"),
    (NoKeyringError("No recommended backend was available."), "unavailable", "does not work here: No recommended"),
    (InitError("Failed to create the collection"), "unavailable", "does not work here: Failed to create"),
    (RuntimeError("DBUS_SESSION_BUS_ADDRESS is unset"), "unavailable", "does not work here: DBUS_SESSION_BUS_ADDRESS"),
    (OSError(13, "Permission denied"), "unavailable", "does not work here: [Errno 13] Permission denied"),
    (KeyError("scheme"), "unavailable", "does not work here: 'scheme'"),
    (ValueError("bad file"), "unavailable", "does not work here: bad file"),
    (AttributeError("api"), "unavailable", "does not work here: api"),
    (AssertionError(), "unavailable", "does not work here: AssertionError"),
    (SystemExit(0), "unavailable", "does not work here: SystemExit 0"),
    (CancelledError(), "unavailable", "does not work here: CancelledError"),
    (EOFError(), "unavailable", "wants to ask for a password in the terminal, which acp-launch does not allow"),
]


def test_a_backend_may_raise_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    raising = store("Raising")
    work: dict[str, Callable[[], object]] = {
        "read": lambda: raising.read(["github", "other"]),
        "write": lambda: raising.write("github", TOKEN),
        "remove": lambda: raising.remove("github"),
    }
    for (error, state, reason), verb in product(FAILURES, work):
        monkeypatch.setattr(Raising, "error", error)
        with pytest.raises(StoreFault) as raised:
            work[verb]()
        assert raised.value.state == state
        if verb == "write" and not isinstance(error, EOFError):
            about, _, _ = reason.partition(":")
            assert raised.value.reason == f"the {label('Raising')} {about}: {type(error).__name__}{UNSAID}"
        else:
            assert raised.value.reason.startswith(f"the {label('Raising')} {reason}")
        assert raised.value.fix == ("unlock it, and try again" if state == "locked" else CHOOSE)
        assert (raised.value.__cause__, raised.value.__context__) == (None, None)


def test_ctrl_c_passes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Raising, "error", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        store("Raising").read(["github"])


class Wordless(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise ValueError(TOKEN.expose())


def test_an_exception_that_cannot_even_be_shown_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Raising, "error", Wordless())
    with pytest.raises(StoreFault) as raised:
        store("Raising").read(["github"])
    assert raised.value.reason == f"the {label('Raising')} does not work here: Wordless"


@pytest.mark.parametrize("verb", [["set", "github"], ["check", "needy.yaml"]], ids=["set", "check"])
def test_a_backend_that_ends_the_process_does_not_end_ours(verb: list[str], tmp_path: Path) -> None:
    """It would end with 0 and without a word."""
    (tmp_path / "needy.yaml").write_text("version: 1\nagent: {command: sh, env: {KEY: '${secret:github}'}}\n")
    done = acp_launch("secret", *verb, backend="backends.Ending", cwd=tmp_path, stdin=b"hunter2!")
    assert done.returncode == 3
    assert "does not work here: SystemExit" in (done.stdout + done.stderr).decode()


def test_a_value_that_is_not_text_is_a_problem_of_its_name_and_none_of_it_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Raising, "error", UnicodeDecodeError("utf-8", b"\xff secret", 0, 1, "invalid start byte"))
    outcome = store("Raising").read(["github"])["github"]
    assert outcome == Outcome(
        "unavailable", label("Raising"), None, "the stored value is not UTF-8 text", "acp-launch secret set github"
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PasswordDeleteError("two\nlines\x1b[2J\x07"), "two lines?[2J?"),
        (PasswordDeleteError("long " * 1000), ("long " * 40)[:199] + "…"),
        (PasswordDeleteError(""), "PasswordDeleteError"),
    ],
)
def test_what_a_backend_says_is_one_short_line(monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    monkeypatch.setattr(Raising, "error", error)
    monkeypatch.setattr(Raising, "get_password", lambda *_: "still there")
    with pytest.raises(StoreFault) as raised:
        store("Raising").remove("github")
    assert raised.value.state == "denied"
    assert raised.value.reason == f"the {label('Raising')} refused the change: {said}"


def test_what_a_backend_says_while_it_writes_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor the value in another shape: upper case, reversed, hex, repr."""
    for value in ("abc", "ghp_0123456789", "line one\nline two"):
        for shape in (value, value.upper(), value[::-1], value.encode().hex(), repr(value)):
            monkeypatch.setattr(Raising, "error", PasswordSetError(f"cannot store {shape} here"))
            with pytest.raises(StoreFault) as raised:
                store("Raising").write("github", Secret(value))
            assert raised.value.state == "denied"
            assert raised.value.reason == f"the {label('Raising')} refused the change: PasswordSetError{UNSAID}"


def test_a_backend_that_lets_nothing_go_denies() -> None:
    keeping = store("Keeping")
    keeping.write("github", TOKEN)
    with pytest.raises(StoreFault) as raised:
        keeping.remove("github")
    assert raised.value.state == "denied"
    assert raised.value.reason == f"the {label('Keeping')} refused the change: this is kept for seven years"
    assert keeping.remove("never set") is False


@pytest.mark.parametrize("backend", ["Prompting", "Hiding"])
def test_a_backend_that_asks_gets_no_answer_and_stdin_stays_unread(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    stdin = io.StringIO('{"jsonrpc": "2.0"}\n')
    monkeypatch.setattr("sys.stdin", stdin)
    monkeypatch.setattr("getpass.getpass", lambda prompt="": pytest.fail("the user was asked"))
    with pytest.raises(StoreFault) as raised:
        store(backend).read(["github"])
    assert raised.value.reason == (
        f"the {label(backend)} wants to ask for a password in the terminal, which acp-launch does not allow"
    )
    assert stdin.tell() == 0


def test_a_backend_that_listens_hears_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.StringIO('{"jsonrpc": "2.0"}\n')
    monkeypatch.setattr("sys.stdin", stdin)
    assert store("Listening").read(["github"])["github"].state == "missing"
    assert Listening.heard == ["", ""]
    assert stdin.tell() == 0


def test_programs_of_a_backend_neither_take_our_stdin_nor_print_on_our_stdout(tmp_path: Path) -> None:
    """It works before the value is read; that is the same pipe."""
    done = acp_launch("secret", "set", "github", backend="draining.Draining", cwd=tmp_path, stdin=b"hunter2!")
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.decode().splitlines() == [
        *["a program's noise", "noise", "heard b''"] * 2,  # once before the value is asked for, once to keep it
        "kept 8 characters",
        "github: stored in the keyring (tests.secret.draining.Draining)",
    ]


class KeychainError(Exception):
    """As keyring.backends.macOS.api.Error, whose module imports only on a Mac."""


class DeniedError(KeychainError):
    pass


class NotFoundError(KeychainError):
    pass


@pytest.fixture
def keychain(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The library's real macOS backend over a Security framework that answers every call with `error`."""
    from keyring.backends import macOS

    api = SimpleNamespace(Error=KeychainError, KeychainDenied=DeniedError, NotFound=NotFoundError, error=None)

    def answer(*_: object) -> None:
        raise api.error

    api.find_generic_password = api.set_generic_password = api.delete_generic_password = answer
    monkeypatch.setattr(macOS, "api", api, raising=False)
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    return api


def macos() -> Store:
    return Keyring(KeyringSettings(backend="keyring.backends.macOS.Keyring"), {}, interactive=True)


def test_over_ssh_the_keychain_is_locked(keychain: SimpleNamespace) -> None:
    """What macOS says: -25308, errSecInteractionNotAllowed."""
    keychain.error = KeychainError(-25308, "Unknown Error")
    for work, said in (
        (lambda: macos().read(["github"]), "Can't get password from keychain: (-25308, 'Unknown Error')"),
        (lambda: macos().write("github", TOKEN), f"PasswordSetError{UNSAID}"),
    ):
        with pytest.raises(StoreFault) as raised:
            work()
        assert raised.value.state == "locked"
        assert raised.value.reason == f"the keyring (macOS Keychain) is locked: {said}"
        assert raised.value.fix == "unlock it, and try again"


def test_a_keychain_dialog_that_is_denied_is_a_problem_of_that_name(keychain: SimpleNamespace) -> None:
    keychain.error = DeniedError(-128, "Keychain Access Denied")
    outcome = macos().read(["github"])["github"]
    assert (outcome.state, outcome.source) == ("denied", "keyring (macOS Keychain)")
    assert outcome.reason == (
        "the keyring (macOS Keychain) denied access: Can't get password from keychain: (-128, 'Keychain Access Denied')"
    )
    assert outcome.fix == "try again, and allow it when asked"


def test_what_the_keychain_does_not_have_is_missing_and_another_status_is_unavailable(
    keychain: SimpleNamespace,
) -> None:
    keychain.error = NotFoundError(-25300, "Item not found")
    assert macos().read(["github"])["github"].state == "missing"
    assert macos().remove("github") is False
    keychain.error = KeychainError(-12800, "Unknown Error")
    with pytest.raises(StoreFault) as raised:
        macos().read(["github"])
    assert raised.value.state == "unavailable"


def test_the_errors_the_library_raises_are_all_known() -> None:
    """When it grows another one, decide here what that means."""
    known = {KeyringLocked, NoKeyringError, InitError, PasswordSetError, PasswordDeleteError}
    ours = {error for error in KeyringError.__subclasses__() if error.__module__ == "keyring.errors"}
    assert ours == known
