"""The keyring store against a real Secret Service, GNOME Keyring (issue "Secrets": Stores, Lookup)."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest

from acp_launch.oauth.grant import MAX_GRANT_BYTES
from acp_launch.secret.keyring import Keyring
from acp_launch.secret.secretservice import SecretService
from acp_launch.secret.value import MAX_VALUE, Outcome, Secret, Store, StoreFault
from acp_launch.settings.model import KeyringSettings
from tests.secret.bus import PASSWORD, Desktop, end

LABEL = "keyring (Secret Service)"
TOKEN = Secret("ghp_0123456789")
FILE = "keep secrets in a sealed file instead: acp-launch config set secrets.store file"
LOCKED = "the desktop keyring is locked, and acp-launch cannot ask you to unlock it"
UNLOCK_OBJECTS = "acp_launch.secret.secretservice.unlock_objects"
UNLOCK = f"unlock it on the desktop, or {FILE}"


def opened(environ: dict[str, str], *, interactive: bool = False) -> Store:
    return Keyring(KeyringSettings(), environ, interactive=interactive)


def collection(connection: Any) -> Any:
    """secretstorage's default collection, unlocked: what other programs see."""
    from secretstorage import Collection

    return Collection(connection)


def items(desktop: Desktop, **attributes: str) -> list[tuple[dict[str, str], bytes]]:
    """Every item with these attributes, as another program finds it."""
    with closing(desktop.connection()) as connection:
        return [(item.get_attributes(), item.get_secret()) for item in collection(connection).search_items(attributes)]


def put(desktop: Desktop, value: bytes, **attributes: str) -> None:
    """An item that another program wrote; always one more."""
    with closing(desktop.connection()) as connection:
        collection(connection).create_item("written by another program", attributes, value, replace=False)


def lock(desktop: Desktop) -> None:
    with closing(desktop.connection()) as connection:
        collection(connection).lock()


def unlock(connection: Any, path: str) -> None:
    """As if the right password was typed: GNOME Keyring's own door for that."""
    from secretstorage.util import DBusAddressWrapper, format_secret, open_session

    interface = "org.gnome.keyring.InternalUnsupportedGuiltRiddenInterface"
    service = DBusAddressWrapper("/org/freedesktop/secrets", interface, connection)
    password = format_secret(open_session(connection), PASSWORD, "text/plain")
    service.call("UnlockWithMasterPassword", "o(oayays)", path, password)


EVERYTHING: list[Callable[[Store], object]] = [
    lambda store: store.read(["github"]),
    lambda store: store.write("github", TOKEN),
    lambda store: store.remove("github"),
    lambda store: store.names(),
]


def fault(work: Callable[[], object]) -> tuple[str, str, str]:
    with pytest.raises(StoreFault) as raised:
        work()
    assert TOKEN.expose() not in repr(raised.value)
    return raised.value.state, raised.value.reason, raised.value.fix


def test_a_value_comes_back_exactly_as_it_was_set_and_replaces_the_one_before(keyring: Store, desktop: Desktop) -> None:
    texts = ("ghp_0123456789", "", "two\nlines\r\nand a tab\t\n", " blanks ", "żółć 🔑 \x00\x7f", "x" * MAX_VALUE)
    for text in texts:
        keyring.write("team/git-hub.2", Secret(text))
        assert keyring.read(["team/git-hub.2"]) == {"team/git-hub.2": Outcome("found", LABEL, Secret(text))}
        assert [value for _, value in items(desktop, service="acp-launch")] == [text.encode()]
    name, tokens = "oauth/mcp.example.com:8443/0123456789abcdef", Secret("x" * MAX_GRANT_BYTES)
    keyring.write(name, tokens)
    assert keyring.read(["a", name]) == {"a": Outcome("missing", LABEL), name: Outcome("found", LABEL, tokens)}
    assert [keyring.remove(name), keyring.remove(name)] == [True, False], "whether there was something"
    assert keyring.read([name])[name].state == "missing"


@pytest.mark.parametrize("is_first", [True, False], ids=["theirs first", "ours first"])
def test_a_second_item_that_another_program_wrote_is_set_and_removed_too(
    keyring: Store, desktop: Desktop, is_first: bool
) -> None:
    """As `secret-tool store service acp-launch username github` does: of two items, programs read either."""
    if not is_first:
        keyring.write("github", Secret("ours"))
    put(desktop, b"theirs", service="acp-launch", username="github")
    keyring.write("github", TOKEN)
    assert {value for _, value in items(desktop, service="acp-launch")} == {b"ghp_0123456789"}
    assert keyring.read(["github"]) == {"github": Outcome("found", LABEL, TOKEN)}
    assert keyring.remove("github")
    assert items(desktop, service="acp-launch") == []


@pytest.mark.parametrize("scheme", ["default", "KeePassXC"])
def test_the_keyring_library_finds_our_items_and_we_find_its(
    keyring: Store, desktop: Desktop, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    from keyring.backends.SecretService import Keyring as Library

    monkeypatch.setenv("KEYRING_PROPERTY_SCHEME", scheme)
    library: Any = Library()  # type: ignore[no-untyped-call]
    keyring.write("ours", Secret("set by us"))
    library.set_password("acp-launch", "theirs", "set by it")
    assert library.get_password("acp-launch", "ours") == "set by us"
    assert keyring.read(["theirs"]) == {"theirs": Outcome("found", LABEL, Secret("set by it"))}
    library.set_password("acp-launch", "ours", "replaced")
    assert {value for _, value in items(desktop)} == {b"replaced", b"set by it"}


def test_an_item_that_is_not_text_is_a_problem_of_that_name_only(keyring: Store, desktop: Desktop) -> None:
    put(desktop, b"\xff\xfe\x00", service="acp-launch", username="binary")
    keyring.write("github", TOKEN)
    assert keyring.read(["binary", "github"]) == {
        "binary": Outcome(
            "unavailable", LABEL, None, "the stored value is not UTF-8 text", "acp-launch secret set binary"
        ),
        "github": Outcome("found", LABEL, TOKEN),
    }


def test_an_item_that_is_larger_than_any_secret_is_not_used(keyring: Store, desktop: Desktop) -> None:
    put(desktop, b"x" * (MAX_VALUE + 1), service="acp-launch", username="huge")
    outcome = keyring.read(["huge"])["huge"]
    assert (outcome.state, outcome.secret) == ("too large", None)
    assert outcome.reason == "the value has 65,537 bytes; a secret may have at most 65,536"


def test_a_locked_keyring_is_locked_at_once_without_a_user_and_a_screen(
    keyring: Store, desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring.write("github", TOKEN)
    lock(desktop)
    monkeypatch.setattr(UNLOCK_OBJECTS, lambda *_: pytest.fail("a dialog was asked for"))
    for screen, has_user in (({}, True), ({"DISPLAY": ":0"}, False), ({}, False)):
        store = opened(desktop.environ | screen, interactive=has_user)
        for verb in EVERYTHING:
            assert fault(lambda: verb(store)) == ("locked", LOCKED, UNLOCK)  # noqa: B023 - called at once


def test_a_locked_keyring_is_read_once_the_user_has_unlocked_it(
    keyring: Store, desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered(connection: Any, paths: list[str]) -> bool:
        unlock(connection, *paths)
        return False

    keyring.write("github", TOKEN)
    lock(desktop)
    monkeypatch.setattr(UNLOCK_OBJECTS, answered)
    store = opened(desktop.environ | {"WAYLAND_DISPLAY": "wayland-0"}, interactive=True)
    assert store.read(["github"]) == {"github": Outcome("found", LABEL, TOKEN)}


def test_a_dialog_that_is_dismissed_leaves_the_keyring_locked(keyring: Store, desktop: Desktop) -> None:
    """The real thing: GNOME Keyring cannot show its dialog here and says it was dismissed."""
    keyring.write("github", TOKEN)
    lock(desktop)
    store = opened(desktop.environ | {"DISPLAY": ":0"}, interactive=True)
    reason = "the desktop keyring is locked, and its dialog was dismissed"
    assert fault(lambda: store.read(["github"])) == ("locked", reason, "unlock it, and try again")


def test_without_a_collection_nothing_asks_to_create_one(bus: Desktop) -> None:
    bus.start_keyring(unlocked=False)
    reason = "the desktop keyring has no default collection, and acp-launch cannot ask you to create one"
    for verb in EVERYTHING:
        assert fault(lambda: verb(opened(bus.environ))) == ("unavailable", reason, FILE)  # noqa: B023 - called at once


def test_another_collection_is_the_one_that_the_library_uses(
    keyring: Store, desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring.write("github", TOKEN)
    monkeypatch.setenv("KEYRING_PROPERTY_PREFERRED_COLLECTION", "/org/freedesktop/secrets/collection/session")
    lock(desktop)  # the default one
    assert opened(desktop.environ).read(["github"])["github"].state == "missing"


def absent(address: str | None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Why there is no store at a bus of this address."""
    if address is None:
        monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    else:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
    for verb in EVERYTHING:
        with pytest.raises(StoreFault) as raised:
            verb(opened({}))
        assert (raised.value.state, raised.value.fix, raised.value.is_absent) == ("unavailable", FILE, True)
    return raised.value.reason.removeprefix(f"the {LABEL} does not work here: ")


def test_without_a_session_or_a_keyring_in_it_the_store_is_absent(
    bus: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = bus.environ["DBUS_SESSION_BUS_ADDRESS"]
    assert "Environment variable DBUS_SESSION_BUS_ADDRESS is unset" in absent(None, monkeypatch)
    assert "neither running nor activatable through D-Bus" in absent(address, monkeypatch)
    end(bus.bus)
    assert "Connection refused" in absent(address, monkeypatch)
    assert absent("unix:path=/nowhere", monkeypatch)
    assert absent("nonsense", monkeypatch)


def test_a_keyring_that_dies_under_our_hands_is_unavailable(bus: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = bus.start_keyring()
    opened(bus.environ).write("github", TOKEN)
    read = SecretService._values

    def die_and_read(self: SecretService, paths: Sequence[str]) -> Any:
        end(daemon)
        return read(self, paths)

    monkeypatch.setattr(SecretService, "_values", die_and_read)
    state, reason, fix = fault(lambda: opened(bus.environ).read(["github"]))
    assert (state, fix) == ("unavailable", FILE)
    assert reason.startswith(f"the {LABEL} does not work here: ")


def test_a_value_over_the_limit_is_refused_before_the_user_is_asked() -> None:
    assert fault(lambda: opened({}).write("github", Secret("é" * (MAX_VALUE // 2) + "x"))) == (
        "too large",
        "the value has 65,537 bytes; a secret may have at most 65,536",
        "keep it in a file, and store only its path or its key as a secret",
    )
