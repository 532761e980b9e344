"""The keyring store against a real Secret Service, GNOME Keyring (issue "Secrets": Stores, Lookup)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from acp_launch.oauth.grant import LONGEST
from acp_launch.secret.keyring import open_keyring
from acp_launch.secret.value import MAX_VALUE, Outcome, Secret, Store, StoreFault
from acp_launch.settings.model import KeyringSettings
from tests.secret.bus import PASSWORD, Desktop, end

LABEL = "keyring (Secret Service)"
TOKEN = Secret("ghp_0123456789")
FILE = "keep secrets in a sealed file instead: acp-launch config set secrets.store file"
UNLOCK = f"unlock it on the desktop, or {FILE}"


def opened(environ: dict[str, str], *, interactive: bool = False) -> Store:
    return open_keyring(KeyringSettings(), environ, interactive=interactive)


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
]
each_verb = pytest.mark.parametrize("verb", EVERYTHING, ids=["read", "write", "remove"])


def fault(work: Callable[[], object]) -> tuple[str, str, str]:
    with pytest.raises(StoreFault) as raised:
        work()
    assert TOKEN.expose() not in repr(raised.value)
    return raised.value.state, raised.value.reason, raised.value.fix


@pytest.mark.parametrize(
    "text",
    ["ghp_0123456789", "", "two\nlines\r\nand a tab\t\n", " blanks ", "żółć 🔑 \x00\x7f", "x" * MAX_VALUE],
    ids=["token", "empty", "lines", "blanks", "unicode", "64 KiB"],
)
def test_a_value_comes_back_exactly_as_it_was_set(keyring: Store, text: str) -> None:
    keyring.write("team/git-hub.2", Secret(text))
    assert keyring.read(["team/git-hub.2"]) == {"team/git-hub.2": Outcome("found", LABEL, Secret(text))}


def test_the_tokens_of_a_login_are_an_item_like_others(keyring: Store) -> None:
    name, tokens = "oauth/mcp.example.com:8443/0123456789abcdef", Secret("x" * LONGEST)
    keyring.write(name, tokens)
    assert keyring.read([name]) == {name: Outcome("found", LABEL, tokens)}
    assert set(keyring.names() or ()) == {name}
    assert keyring.remove(name)


def test_a_name_that_was_never_set_is_missing_and_the_others_are_found(keyring: Store) -> None:
    keyring.write("b", TOKEN)
    read = keyring.read(["a", "b", "c"])
    assert read == {
        "a": Outcome("missing", LABEL),
        "b": Outcome("found", LABEL, TOKEN),
        "c": Outcome("missing", LABEL),
    }


def test_setting_again_replaces_and_never_leaves_two_items(keyring: Store, desktop: Desktop) -> None:
    keyring.write("github", Secret("old"))
    keyring.write("github", TOKEN)
    assert [value for _, value in items(desktop, service="acp-launch")] == [b"ghp_0123456789"]


def test_setting_replaces_every_item_that_another_program_made_for_the_name(keyring: Store, desktop: Desktop) -> None:
    """secret-tool sets no `application`; to the Secret Service that is another item."""
    put(desktop, b"one", service="acp-launch", username="github")
    put(desktop, b"two", service="acp-launch", username="github", application="Python keyring library")
    keyring.write("github", TOKEN)
    assert [value for _, value in items(desktop, service="acp-launch")] == [b"ghp_0123456789"]
    assert keyring.read(["github"])["github"].secret == TOKEN


def test_removing_says_whether_there_was_something(keyring: Store, desktop: Desktop) -> None:
    keyring.write("github", TOKEN)
    keyring.write("other", TOKEN)
    assert keyring.remove("github") is True
    assert keyring.remove("github") is False
    assert {name: outcome.state for name, outcome in keyring.read(["github", "other"]).items()} == {
        "github": "missing",
        "other": "found",
    }


def test_ten_secrets_cost_one_connection_and_one_session(keyring: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue "Secrets": all secrets of a run through one session; it is what costs."""
    from secretstorage.util import DBusAddressWrapper

    names = [f"secret-{number}" for number in range(10)]
    for name in names:
        keyring.write(name, Secret(f"value of {name}"))
    calls: list[tuple[str, int]] = []
    call = DBusAddressWrapper.call

    def counted(self: DBusAddressWrapper, method: str, signature: str, *body: Any) -> Any:
        calls.append((method, id(self._connection)))
        return call(self, method, signature, *body)

    monkeypatch.setattr(DBusAddressWrapper, "call", counted)
    read = keyring.read(names)
    assert read == {name: Outcome("found", LABEL, Secret(f"value of {name}")) for name in names}
    assert [method for method, _ in calls].count("OpenSession") == 1
    assert len({connection for _, connection in calls}) == 1


def test_nothing_found_needs_no_session(keyring: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secretstorage.util.open_session", lambda connection: pytest.fail("a session was opened"))
    assert keyring.read(["github"])["github"].state == "missing"


@pytest.fixture
def library(desktop: Desktop, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The keyring library's own backend on the same desktop: what `keyring get acp-launch NAME` uses."""
    from keyring.backends import SecretService

    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", desktop.environ["DBUS_SESSION_BUS_ADDRESS"])
    backend: Any = SecretService
    return backend.Keyring()


def test_the_keyring_library_sees_our_items(keyring: Store, desktop: Desktop, library: Any) -> None:
    keyring.write("github", Secret("ours"))
    assert library.get_password("acp-launch", "github") == "ours"
    library.set_password("acp-launch", "github", "theirs")
    assert [value for _, value in items(desktop, service="acp-launch")] == [b"theirs"]
    library.delete_password("acp-launch", "github")
    assert keyring.read(["github"]) == {"github": Outcome("missing", LABEL)}


def test_we_see_the_items_of_the_keyring_library(keyring: Store, library: Any) -> None:
    library.set_password("acp-launch", "github", "theirs")
    assert keyring.read(["github"])["github"].secret == Secret("theirs")
    keyring.write("github", Secret("ours"))
    assert library.get_password("acp-launch", "github") == "ours"
    assert keyring.remove("github")
    assert library.get_password("acp-launch", "github") is None


def test_an_item_that_is_not_text_is_a_problem_of_that_name_only(keyring: Store, desktop: Desktop) -> None:
    put(desktop, b"\xff\xfe\x00", service="acp-launch", username="binary")
    keyring.write("github", TOKEN)
    assert keyring.read(["binary", "github"]) == {
        "binary": Outcome(
            "unavailable",
            LABEL,
            None,
            "the stored value is not UTF-8 text",
            "acp-launch secret set binary",
        ),
        "github": Outcome("found", LABEL, TOKEN),
    }


def test_an_item_that_is_larger_than_any_secret_is_not_used(keyring: Store, desktop: Desktop) -> None:
    put(desktop, b"x" * (MAX_VALUE + 1), service="acp-launch", username="huge")
    outcome = keyring.read(["huge"])["huge"]
    assert (outcome.state, outcome.secret) == ("too large", None)
    assert outcome.reason == "the value has 65,537 bytes; a secret may have at most 65,536"


def test_names_are_those_of_our_service_with_the_time_they_were_set(keyring: Store, desktop: Desktop) -> None:
    from time import time

    put(desktop, b"x", service="acp-launch-other", username="not-ours")
    put(desktop, b"x", service="acp-launch", note="without a name")
    begun = time()
    for name in ("b", "a"):
        keyring.write(name, TOKEN)
    names = keyring.names()
    assert names is not None
    assert set(names) == {"a", "b"}
    assert all(when is not None and int(begun) <= when <= time() for when in names.values())


@each_verb
def test_a_locked_keyring_is_locked_at_once_without_a_user(
    keyring: Store, desktop: Desktop, monkeypatch: pytest.MonkeyPatch, verb: Callable[[Store], object]
) -> None:
    keyring.write("github", TOKEN)
    lock(desktop)
    monkeypatch.setattr("secretstorage.Collection.unlock", lambda _: pytest.fail("a dialog was asked for"))
    assert fault(lambda: verb(keyring)) == (
        "locked",
        "the desktop keyring is locked, and acp-launch cannot ask you to unlock it",
        UNLOCK,
    )


def test_names_are_known_while_the_keyring_is_locked(
    keyring: Store, desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring.write("github", TOKEN)
    lock(desktop)
    monkeypatch.setattr("secretstorage.Collection.unlock", lambda _: pytest.fail("a dialog was asked for"))
    assert list(keyring.names() or ()) == ["github"]


@each_verb
def test_a_locked_keyring_stays_locked_without_a_screen_for_its_dialog(
    keyring: Store, desktop: Desktop, verb: Callable[[Store], object]
) -> None:
    """The real thing: GNOME Keyring cannot show its dialog and says it was dismissed."""
    keyring.write("github", TOKEN)
    lock(desktop)
    assert fault(lambda: verb(opened(desktop.environ, interactive=True))) == (
        "locked",
        "the desktop keyring is locked, and its dialog needs a display",
        UNLOCK,
    )


@pytest.mark.parametrize("screen", ["DISPLAY", "WAYLAND_DISPLAY"])
def test_a_dialog_that_goes_away_on_a_screen_was_cancelled(keyring: Store, desktop: Desktop, screen: str) -> None:
    keyring.write("github", TOKEN)
    lock(desktop)
    store = opened(desktop.environ | {screen: ":0"}, interactive=True)
    assert fault(lambda: store.read(["github"])) == (
        "denied",
        "the dialog of the desktop keyring was cancelled",
        "try again, and answer it",
    )


def test_a_locked_keyring_is_read_once_the_user_has_unlocked_it(
    keyring: Store, desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered(self: Any) -> bool:
        unlock(self.connection, self.collection_path)
        return False

    keyring.write("github", TOKEN)
    lock(desktop)
    monkeypatch.setattr("secretstorage.Collection.unlock", answered)
    store = opened(desktop.environ, interactive=True)
    assert store.read(["github"]) == {"github": Outcome("found", LABEL, TOKEN)}


def test_an_unlocking_that_unlocks_nothing_is_not_believed(
    keyring: Store, desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(desktop)
    monkeypatch.setattr("secretstorage.Collection.unlock", lambda _: False)
    store = opened(desktop.environ, interactive=True)
    assert fault(lambda: store.read(["github"])) == (
        "locked",
        "the desktop keyring is locked, and was not unlocked",
        UNLOCK,
    )


def test_a_lock_of_one_item_is_a_problem_of_that_name_only(
    keyring: Store, desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KeePassXC has such items; GNOME Keyring locks whole collections, so the lock is played here."""
    from secretstorage import Item, LockedException

    keyring.write("github", TOKEN)
    keyring.write("other", Secret("other value"))
    is_other = {item.item_path for item in _paths(desktop, "other")}
    get_secret, is_locked = Item.get_secret, Item.is_locked

    def get(self: Item) -> bytes:
        if self.item_path in is_other:
            raise LockedException("Item is locked!")
        return get_secret(self)

    monkeypatch.setattr(Item, "get_secret", get)
    monkeypatch.setattr(Item, "is_locked", lambda self: self.item_path in is_other or is_locked(self))
    assert keyring.read(["other", "github"]) == {
        "other": Outcome(
            "locked",
            LABEL,
            None,
            "the desktop keyring is locked, and acp-launch cannot ask you to unlock it",
            UNLOCK,
        ),
        "github": Outcome("found", LABEL, TOKEN),
    }


@each_verb
def test_a_lock_of_one_item_is_opened_when_the_user_answers(
    keyring: Store, desktop: Desktop, monkeypatch: pytest.MonkeyPatch, verb: Callable[[Store], object]
) -> None:
    from secretstorage import Item, LockedException

    keyring.write("github", Secret("old"))
    locked = {item.item_path for item in _paths(desktop, "github")}

    def ensure(self: Item) -> None:
        if self.item_path in locked:
            raise LockedException("Item is locked!")

    def answered(self: Item) -> bool:
        locked.remove(self.item_path)
        return False

    # GNOME Keyring knows no such lock: `set_secret` and `delete` of the real item would go through.
    set_secret = Item.set_secret

    def setting(self: Item, value: bytes) -> None:
        ensure(self)
        set_secret(self, value)

    monkeypatch.setattr(Item, "ensure_not_locked", ensure)
    monkeypatch.setattr(Item, "is_locked", lambda self: self.item_path in locked)
    monkeypatch.setattr(Item, "set_secret", setting)
    monkeypatch.setattr(Item, "unlock", answered)
    verb(opened(desktop.environ, interactive=True))
    assert locked == set()


def _paths(desktop: Desktop, name: str) -> Sequence[Any]:
    with closing(desktop.connection()) as connection:
        return list(collection(connection).search_items({"username": name}))


def test_another_collection_is_the_one_that_the_library_would_use(keyring: Store, desktop: Desktop) -> None:
    keyring.write("github", TOKEN)
    chosen = {"KEYRING_PROPERTY_PREFERRED_COLLECTION": "/org/freedesktop/secrets/collection/session"}
    store = opened(desktop.environ | chosen)
    store.write("other", TOKEN)
    assert store.read(["github", "other"])["github"].state == "missing"
    assert (set(store.names() or ()), set(keyring.names() or ())) == ({"other"}, {"github"})


@pytest.fixture
def bare(bus: Desktop) -> Desktop:
    """A keyring that was just installed: no collection yet."""
    bus.start_keyring(unlocked=False)
    return bus


def test_without_any_collection_everything_is_missing_and_no_dialog_is_shown(
    bare: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secretstorage.create_collection", lambda *_: pytest.fail("a dialog was asked for"))
    store = opened(bare.environ, interactive=True)
    assert store.read(["github"]) == {"github": Outcome("missing", LABEL)}
    assert store.names() == {}
    assert store.remove("github") is False


@pytest.mark.parametrize(
    ("screen", "interactive", "expected"),
    [
        (
            {},
            False,
            (
                "unavailable",
                "the desktop keyring has no default collection, and acp-launch cannot ask you to create one",
                FILE,
            ),
        ),
        (
            {},
            True,
            ("locked", "the desktop keyring is locked, and its dialog needs a display", UNLOCK),
        ),
        (
            {"DISPLAY": ":0"},
            True,
            ("denied", "the dialog of the desktop keyring was cancelled", "try again, and answer it"),
        ),
    ],
    ids=["no user", "no screen", "cancelled"],
)
def test_the_first_secret_needs_a_user_to_make_the_collection(
    bare: Desktop, screen: dict[str, str], interactive: bool, expected: tuple[str, str, str]
) -> None:
    store = opened(bare.environ | screen, interactive=interactive)
    assert fault(lambda: store.write("github", TOKEN)) == expected
    assert store.names() == {}


def test_the_first_secret_makes_the_collection_when_the_user_answers(
    bare: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands in for the dialog: GNOME Keyring's own door makes the default collection with a password."""

    def answered(connection: Any, label: str, alias: str) -> Any:
        assert (label, alias) == ("Default", "default")
        return _made(connection, label)

    monkeypatch.setattr("secretstorage.create_collection", answered)
    store = opened(bare.environ, interactive=True)
    store.write("github", TOKEN)
    assert store.read(["github"]) == {"github": Outcome("found", LABEL, TOKEN)}


def _made(connection: Any, label: str) -> Any:
    from secretstorage import Collection
    from secretstorage.util import DBusAddressWrapper, format_secret, open_session

    root = "/org/freedesktop/secrets"
    door = DBusAddressWrapper(root, "org.gnome.keyring.InternalUnsupportedGuiltRiddenInterface", connection)
    password = format_secret(open_session(connection), PASSWORD, "text/plain")
    properties = {"org.freedesktop.Secret.Collection.Label": ("s", label)}
    (path,) = door.call("CreateWithMasterPassword", "a{sv}(oayays)", properties, password)
    service = DBusAddressWrapper(root, "org.freedesktop.Secret.Service", connection)
    service.call("SetAlias", "so", "default", path)
    return Collection(connection, path)


@each_verb
def test_without_a_session_the_reason_is_the_session(verb: Callable[[Store], object]) -> None:
    reason = "cannot reach a desktop keyring: there is no D-Bus session, DBUS_SESSION_BUS_ADDRESS is not set"
    assert fault(lambda: verb(opened({}))) == ("unavailable", reason, FILE)
    assert fault(opened({}).names) == ("unavailable", reason, FILE)


def test_the_session_is_also_found_in_the_runtime_directory(keyring: Store, desktop: Desktop) -> None:
    """Logged in over SSH, while the desktop runs."""
    keyring.write("github", TOKEN)
    store = opened({"XDG_RUNTIME_DIR": str(desktop.socket.parent)})
    assert store.read(["github"]) == {"github": Outcome("found", LABEL, TOKEN)}


def test_a_runtime_directory_is_written_as_an_address_must_be(desktop: Desktop) -> None:
    odd = desktop.socket.parent / "a,b;c=d%41"
    odd.symlink_to(desktop.socket.parent)
    assert opened({"XDG_RUNTIME_DIR": str(odd)}).read(["github"]) == {"github": Outcome("missing", LABEL)}


def test_a_dead_bus_is_named(bus: Desktop) -> None:
    end(bus.bus)
    address = bus.environ["DBUS_SESSION_BUS_ADDRESS"]
    assert fault(lambda: opened(bus.environ).read(["github"])) == (
        "unavailable",
        f"cannot reach a desktop keyring: cannot reach the D-Bus session at {address}: [Errno 111] Connection refused",
        FILE,
    )


@pytest.mark.parametrize("address", ["disabled:", "autolaunch:", "tcp:host=localhost,port=1", "nonsense", "unix:dir=/"])
def test_an_address_that_leads_nowhere_is_named(address: str) -> None:
    state, reason, fix = fault(lambda: opened({"DBUS_SESSION_BUS_ADDRESS": address}).read(["github"]))
    assert (state, fix) == ("unavailable", FILE)
    assert reason.startswith("cannot reach a desktop keyring: ")


@each_verb
def test_a_session_without_a_keyring_is_told_apart(bus: Desktop, verb: Callable[[Store], object]) -> None:
    reason = "no desktop keyring runs in this session: org.freedesktop.secrets is not on D-Bus"
    assert fault(lambda: verb(opened(bus.environ))) == ("unavailable", reason, FILE)


def test_without_a_session_or_a_keyring_in_it_the_store_is_absent(bus: Desktop) -> None:
    def is_absent(environ: dict[str, str]) -> bool:
        with pytest.raises(StoreFault) as raised:
            opened(environ).read(["github"])
        return raised.value.is_absent

    assert is_absent({})
    assert is_absent(bus.environ)


def test_a_locked_keyring_is_not_absent(keyring: Store, desktop: Desktop) -> None:
    keyring.write("github", TOKEN)
    lock(desktop)
    with pytest.raises(StoreFault) as raised:
        keyring.read(["github"])
    assert (raised.value.state, raised.value.is_absent) == ("locked", False)


@pytest.mark.parametrize("method", ["SearchItems", "CreateItem", "OpenSession"])
def test_a_keyring_that_dies_under_our_hands_is_unavailable(
    bus: Desktop, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    from secretstorage.util import DBusAddressWrapper

    daemon = bus.start_keyring()
    call = DBusAddressWrapper.call

    def dying(self: DBusAddressWrapper, name: str, signature: str, *body: Any) -> Any:
        if name == method:
            end(daemon)
        return call(self, name, signature, *body)

    monkeypatch.setattr(DBusAddressWrapper, "call", dying)
    state, reason, fix = fault(lambda: opened(bus.environ).write("github", TOKEN))
    assert (state, fix) == ("unavailable", FILE)
    # The bus may or may not have noticed the death when our call arrives.
    assert reason in {
        "no desktop keyring runs in this session: org.freedesktop.secrets is not on D-Bus",
        "the desktop keyring does not work here: DBusErrorResponse; its text is not shown, as it may hold the value",
    }


def test_what_the_keyring_says_while_a_value_is_written_is_not_shown(
    keyring: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(self: object, label: str, attributes: object, secret: bytes, replace: bool) -> None:
        raise RuntimeError(f"cannot take {secret.hex()}")

    monkeypatch.setattr("secretstorage.Collection.create_item", refusing)
    assert fault(lambda: keyring.write("github", TOKEN)) == (
        "unavailable",
        "the desktop keyring does not work here: RuntimeError; its text is not shown, as it may hold the value",
        FILE,
    )


def test_a_library_that_ends_the_process_does_not_end_ours(keyring: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def ending(self: object, attributes: object) -> None:
        raise SystemExit(0)

    monkeypatch.setattr("secretstorage.Collection.search_items", ending)
    assert fault(lambda: keyring.read(["github"])) == (
        "unavailable",
        "the desktop keyring does not work here: SystemExit 0",
        FILE,
    )


def test_a_bus_that_dies_under_our_hands_is_unavailable(
    keyring: Store, desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from secretstorage import Collection

    search = Collection.search_items

    def dying(self: Collection, attributes: dict[str, str]) -> Iterator[Any]:
        end(desktop.bus)
        return search(self, attributes)

    monkeypatch.setattr(Collection, "search_items", dying)
    state, reason, fix = fault(lambda: keyring.read(["github"]))
    assert (state, fix) == ("unavailable", FILE)
    assert reason.startswith("the desktop keyring does not work here: [Errno ")


@pytest.mark.parametrize("missing", ["secretstorage", "jeepney"])
def test_a_package_that_is_not_installed_is_said(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    state, reason, _ = fault(lambda: opened({"DBUS_SESSION_BUS_ADDRESS": "unix:path=/"}).read(["github"]))
    assert state == "unavailable"
    assert reason.startswith("the Secret Service needs a Python package: ")
    assert missing in reason


def test_a_value_over_the_limit_is_refused_before_the_user_is_asked() -> None:
    assert fault(lambda: opened({}).write("github", Secret("é" * (MAX_VALUE // 2) + "x"))) == (
        "too large",
        "the value has 65,537 bytes; a secret may have at most 65,536",
        "keep it in a file, and store only its path or its key as a secret",
    )


def test_a_value_that_is_not_text_is_refused_before_the_user_is_asked() -> None:
    assert fault(lambda: opened({}).write("github", Secret("half \ud83d"))) == (
        "unavailable",
        "the value is not UTF-8 text",
        "encode it first, for example with base64",
    )
