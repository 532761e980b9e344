"""Services that answer otherwise than GNOME Keyring: in memory, behind the calls of jeepney's connection."""

import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from jeepney import HeaderFields, Message, new_error, new_method_return  # type: ignore[import-untyped]

from acp_launch.secret.keyring import Keyring
from acp_launch.secret.value import Outcome, Secret, StoreFault
from acp_launch.settings.model import KeyringSettings

LABEL = "keyring (Secret Service)"
FILE = "keep secrets in a sealed file instead: acp-launch config set secrets.store file"
LOCKED = "the desktop keyring is locked, and acp-launch cannot ask you to unlock it"
NAMES = [f"s{number}" for number in range(10)]
IS_LOCKED = "org.freedesktop.Secret.Error.IsLocked"


@dataclass
class Item:
    name: str
    value: bytes
    is_locked: bool = False


@dataclass
class Service:
    """Answers as a Secret Service with one collection; `calls` counts the methods. It is its own connection."""

    items: dict[str, Item]
    refuses_all: bool = False  # for one that is locked; otherwise that one is left out
    dismisses: bool = False
    has_collection: bool = True
    errors: dict[str, str] = field(default_factory=dict)  # by the method: the error's name
    before: dict[str, Callable[[], object]] = field(default_factory=dict)  # what happens before a method
    calls: Counter[str] = field(default_factory=Counter)

    def send_and_get_reply(self, message: Message) -> Message:
        path, method = (message.header.fields[key] for key in (HeaderFields.path, HeaderFields.member))
        self.calls[method] += 1
        self.before.get(method, lambda: None)()
        error = self.errors.get(method)
        answer = error or getattr(self, "_" + re.sub("(?!^)(?=[A-Z])", "_", method).lower())(path, *message.body)
        if isinstance(answer, str):
            return new_error(message, answer, "s", ("as the service says",))
        return new_method_return(message, "v", answer)

    def _open_session(self, _: str, algorithm: str, __: object) -> object:
        return (("s", ""), "/session") if algorithm == "plain" else "org.freedesktop.DBus.Error.NotSupported"

    def _get(self, path: str, _: str, name: str) -> object:
        item = self.items.get(path)
        if item is None and not (self.has_collection and path.endswith("default")):
            return "org.freedesktop.DBus.Error.UnknownObject"
        return (("v", {"Label": "label", "Locked": item is not None and item.is_locked}[name]),)

    def _create_collection(self, _: str, properties: object, alias: str) -> object:
        self.calls["dialog"] += 1
        self.has_collection = not self.dismisses
        return "/", "/prompt"

    def _search_items(self, _: str, attributes: dict[str, str]) -> object:
        assert attributes["service"] == "acp-launch"
        return ([path for path, item in self.items.items() if item.name == attributes["username"]],)

    def _get_secrets(self, _: str, paths: list[str], session: str) -> object:
        if self.refuses_all and any(self.items[path].is_locked for path in paths):
            return IS_LOCKED
        known = {path: self.items[path] for path in paths if path in self.items}
        return ({path: self._secret(item) for path, item in known.items() if not item.is_locked},)

    def _get_secret(self, path: str, session: str) -> object:
        return (self._secret(self.items[path]),)

    def _secret(self, item: Item) -> tuple[str, bytes, bytes, str]:
        return "/session", b"", item.value, "text/plain"

    def _unlock(self, _: str, paths: list[str]) -> object:
        if not any(path in self.items and self.items[path].is_locked for path in paths):
            return paths, "/"
        self.calls["dialog"] += 1
        if not self.dismisses:
            for path in paths:
                self.items[path].is_locked = False
        return [], "/prompt"

    def _prompt(self, _: str, window: str) -> object:
        return ()

    @contextmanager
    def filter(self, rule: object) -> Iterator[deque[Message]]:
        yield deque()

    def recv_until_filtered(self, queue: object, timeout: float | None) -> Any:
        created = ("o", "/org/freedesktop/secrets/aliases/default")
        return Message(None, (self.dismisses, created if self.calls["CreateCollection"] else ("ao", [])))

    def close(self) -> None:
        self.calls["close"] += 1


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service with ten items."""
    service = Service({f"/item/{name}": Item(name, f"value of {name}".encode()) for name in NAMES})
    monkeypatch.setattr("acp_launch.secret.secretservice.connect", lambda: service)
    return service


def store(*, interactive: bool = False) -> Keyring:
    return Keyring(KeyringSettings(), {"HOME": "/nowhere", "DISPLAY": ":0"}, interactive=interactive)


def found(name: str) -> Outcome:
    return Outcome("found", LABEL, Secret(f"value of {name}"))


def test_ten_secrets_cost_one_session_and_one_message_with_the_values(service: Service) -> None:
    """The session is asked for twice, because this service does not encrypt."""
    assert store().read(NAMES) == {name: found(name) for name in NAMES}
    methods = ("OpenSession", "SearchItems", "GetSecrets", "GetSecret", "Unlock", "close")
    assert {method: service.calls[method] for method in methods} == {
        **{"OpenSession": 2, "SearchItems": 10, "GetSecrets": 1, "GetSecret": 0, "Unlock": 0, "close": 1}
    }


@pytest.mark.parametrize("refuses_all", [True, False], ids=["KeePassXC", "GNOME Keyring"])
def test_a_locked_item_is_a_fault_of_its_name_and_the_others_are_found(service: Service, refuses_all: bool) -> None:
    service.refuses_all = refuses_all
    service.items["/item/s3"].is_locked = True
    locked = Outcome("locked", LABEL, None, LOCKED, f"unlock it on the desktop, or {FILE}")
    assert store().read(NAMES) == {name: locked if name == "s3" else found(name) for name in NAMES}
    assert service.calls["dialog"] == 0


def test_one_dialog_unlocks_all_items(service: Service) -> None:
    """KeePassXC asks whether a program may see an entry."""
    service.refuses_all = True
    for item in service.items.values():
        item.is_locked = True
    assert store(interactive=True).read(NAMES) == {name: found(name) for name in NAMES}
    assert (service.calls["dialog"], service.calls["GetSecret"]) == (1, 0)


def test_a_dialog_that_is_dismissed_is_not_shown_for_the_next_item(service: Service) -> None:
    service.dismisses = True
    for name in ("s1", "s2"):
        service.items[f"/item/{name}"].is_locked = True
    with pytest.raises(StoreFault) as raised:
        store(interactive=True).read(NAMES)
    reason = "the desktop keyring is locked, and its dialog was dismissed"
    assert (raised.value.state, raised.value.reason, raised.value.fix) == ("locked", reason, "unlock it, and try again")
    assert (service.calls["dialog"], service.calls["close"]) == (1, 1)


@pytest.mark.parametrize("dismisses", [True, False])
def test_a_desktop_without_a_collection_asks_to_create_one(service: Service, dismisses: bool) -> None:
    service.has_collection, service.dismisses = False, dismisses
    if not dismisses:
        assert store(interactive=True).read(["none"])["none"].state == "missing"
        return
    with pytest.raises(StoreFault) as raised:
        store(interactive=True).read(["none"])
    assert raised.value.state == "denied"
    assert raised.value.reason == f"the {LABEL} denied access: Prompt dismissed"
    assert service.calls["dialog"] == 1


def test_without_the_libraries_of_a_desktop_the_store_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on FreeBSD, where they are not installed with us."""
    for name in [name for name in sys.modules if name.startswith(("secretstorage", "acp_launch.secret.secretservice"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("acp_launch.secret.secretservice", raising=False)
    monkeypatch.setitem(sys.modules, "secretstorage", None)
    with pytest.raises(StoreFault) as raised:
        store().read(["none"])
    assert (raised.value.state, raised.value.is_absent) == ("unavailable", True)
    assert raised.value.reason.startswith(f"the {LABEL} does not work here: import of secretstorage")


def test_an_item_that_is_removed_meanwhile_is_missing(service: Service) -> None:
    service.before["GetSecrets"] = lambda: service.items.pop("/item/s3", None)
    assert store().read(NAMES) == {name: Outcome("missing", LABEL) if name == "s3" else found(name) for name in NAMES}


def test_a_service_that_gives_values_only_one_by_one_is_asked_so(service: Service) -> None:
    service.errors["GetSecrets"] = "org.freedesktop.DBus.Error.NotSupported"
    assert store().read([*NAMES, "none"]) == {name: found(name) for name in NAMES} | {"none": Outcome("missing", LABEL)}


@pytest.mark.parametrize("method", ["Get", "OpenSession", "SearchItems", "GetSecrets"])
@pytest.mark.parametrize("death", ["org.freedesktop.DBus.Error.NoReply", ConnectionResetError("reset by peer")])
def test_a_service_that_dies_in_between_is_unavailable(
    service: Service, method: str, death: str | ConnectionResetError
) -> None:
    def die() -> None:
        if isinstance(death, ConnectionResetError):
            raise death

    service.before[method] = die
    service.errors[method] = str(death)
    with pytest.raises(StoreFault) as raised:
        store().read(NAMES)
    assert raised.value.state == "unavailable"
    said = "reset by peer" if isinstance(death, ConnectionResetError) else "as the service says"
    assert raised.value.reason == f"the {LABEL} does not work here: {said}"
    assert service.calls["close"] == 1


def test_of_two_items_the_first_is_read(service: Service) -> None:
    service.items["/item/later"] = Item("s3", b"another")
    assert store().read(["s3"]) == {"s3": found("s3")}
    service.items = {"/item/earlier": Item("s3", b"value of another"), **service.items}
    assert store().read(["s3"])["s3"].secret == Secret("value of another")


def test_no_name_is_no_message_for_values(service: Service) -> None:
    assert store().read(["none"]) == {"none": Outcome("missing", LABEL)}
    assert service.calls["GetSecrets"] == 0


def test_a_scheme_that_does_not_exist_is_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYRING_PROPERTY_SCHEME", "Other")
    with pytest.raises(StoreFault, match="'Other'"):
        store().read(NAMES)
