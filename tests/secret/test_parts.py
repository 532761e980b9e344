"""Values longer than a keyring's items: split and joined, all or nothing (issue "Secrets": Lookup; Windows: 1,280)."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.secret.isolate import ItemFault
from acp_launch.secret.parts import WINDOWS, Items, Split
from acp_launch.secret.value import MAX_VALUE, StoreFault

DAMAGED = "it is kept in several parts, and they do not fit together"


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


class Vault:
    """A keyring in memory that refuses more than `limit` units, and fails at the `failing`th change or question."""

    def __init__(self, *, limit: int = WINDOWS) -> None:
        self.items: dict[str, str] = {}
        self.unreadable: set[str] = set()
        self.limit = limit
        self.calls = 0
        self.failing = range(0)

    def get(self, user: str) -> str | None:
        self._count()
        if user in self.unreadable:
            raise ItemFault("unavailable", "what is stored under this name is not text")
        return self.items.get(user)

    def set(self, user: str, text: str) -> None:
        self._count()
        if units(text) > self.limit:
            raise StoreFault("unavailable", "1783: the stub received bad data")
        self.items[user] = text
        self.unreadable.discard(user)

    def delete(self, user: str) -> bool:
        self._count()
        self.unreadable.discard(user)
        return self.items.pop(user, None) is not None

    def _count(self) -> None:
        self.calls += 1
        if self.calls in self.failing:
            raise StoreFault("locked", f"call {self.calls} failed")

    def fails(self, calls: range) -> None:
        self.calls, self.failing = 0, calls


def split(vault: Items, *, limit: int = WINDOWS) -> Split:
    return Split(vault, limit=limit)


LONG = "old " * 1000
LONGER = "new 🔑" * 1500


@pytest.mark.parametrize("size", [0, 1, 1279, 1280])
def test_what_fits_is_one_item_as_it_is(size: int) -> None:
    vault = Vault()
    split(vault).set("github", "x" * size)
    assert vault.items == {"github": "x" * size}
    assert split(vault).get("github") == "x" * size


@pytest.mark.parametrize(
    "text",
    ["x" * 1281, "x" * 2560, "🔑" * 640 + "x", "🔑" * 5000, "x" + "🔑" * 5000, "ż" * 1281, "x" * MAX_VALUE],
    ids=["1281", "2560", "one unit too many", "astral", "astral at odd places", "two bytes each", "64 KiB"],
)
def test_what_does_not_fit_is_split_and_comes_back(text: str) -> None:
    vault = Vault()
    split(vault).set("github", text)
    assert len(vault.items) > 2
    assert all(name == "github" or name.startswith("github#a") for name in vault.items)
    assert not any(text in item for item in vault.items.values())
    assert split(vault).get("github") == text


def test_astral_characters_count_twice() -> None:
    vault = Vault()
    split(vault).set("github", "🔑" * 640)
    assert vault.items == {"github": "🔑" * 640}


@given(text=st.text(max_size=200), limit=st.integers(60, 90))
def test_every_text_comes_back_and_leaves_nothing(text: str, limit: int) -> None:
    vault = Vault(limit=limit)
    split(vault, limit=limit).set("n", "something before " * 20)
    split(vault, limit=limit).set("n", text)
    assert split(vault, limit=limit).get("n") == text
    assert split(vault, limit=limit).delete("n") is True
    assert vault.items == {}


@pytest.mark.parametrize("mark", ["\ufeff", "\ufffe"])
def test_a_value_that_begins_with_a_byte_order_mark_keeps_it(mark: str) -> None:
    """WinVault reads with the codec `utf-16`, which takes the first away and turns everything after the second."""

    class Decoding(Vault):
        def get(self, user: str) -> str | None:
            text = super().get(user)
            return None if text is None else text.encode("utf-16-le").decode("utf-16")

    vault = Decoding()
    split(vault).set("github", f"{mark}token")
    assert split(vault).get("github") == f"{mark}token"


def test_a_value_that_looks_like_our_header_is_a_value() -> None:
    vault = Vault()
    split(vault).set("github", LONG)
    header = vault.items["github"]
    for text in (header, header + " ", "acp-launch:parts:", "acp-launch:parts:1:a00000000:1:1:" + "0" * 16):
        split(vault).set("other", text)
        assert split(vault).get("other") == text
    assert split(vault).get("github") == LONG


def test_a_name_nobody_set_has_no_value_and_cannot_be_deleted() -> None:
    vault = Vault()
    assert split(vault).get("github") is None
    assert split(vault).delete("github") is False


def test_replacing_again_and_again_leaves_only_the_last() -> None:
    vault = Vault()
    for text in (LONG, LONGER, LONG + LONGER, LONG, "short", LONGER, LONG):
        split(vault).set("github", text)
        assert split(vault).get("github") == text
    assert len(vault.items) == 1 + 4  # 4,000 characters, 1,270 in each part


def test_a_short_value_sweeps_the_parts_of_a_long_one() -> None:
    vault = Vault()
    split(vault).set("github", LONG)
    split(vault).set("github", "short")
    assert vault.items == {"github": "short"}


def test_names_that_begin_alike_do_not_touch_each_other() -> None:
    vault = Vault()
    split(vault).set("git", LONG)
    split(vault).set("github", LONGER)
    assert split(vault).delete("git") is True
    assert split(vault).get("github") == LONGER


SETS = [("short", LONGER), (LONG, LONGER), (LONGER, LONG), (LONG, "short"), (None, LONGER), ("short", "other")]


@pytest.mark.parametrize(("old", "new"), SETS, ids=lambda text: f"{len(text or '')}")
@pytest.mark.parametrize("lasting", [False, True], ids=["one call", "all from there"])
def test_a_write_that_fails_anywhere_leaves_the_old_value_or_the_new(old: str | None, new: str, lasting: bool) -> None:
    """At every call in turn. When it raises, the old value is there; when it returns, the new one."""
    for number in range(1, 1000):
        vault = Vault()
        if old is not None:
            split(vault).set("github", old)
        before = dict(vault.items)
        vault.fails(range(number, 10_000 if lasting else number + 1))
        try:
            split(vault).set("github", new)
            expected: str | None = new
        except StoreFault as fault:
            assert fault.reason == f"call {number} failed"
            expected = old
            assert lasting or vault.items == before  # what was begun is withdrawn, as long as the keyring answers
        reached = vault.calls >= number
        vault.fails(range(0))
        assert split(vault).get("github") == expected
        split(vault).set("github", "last")
        assert vault.items == {"github": "last"}
        if not reached:
            return
    pytest.fail("no write takes a thousand calls")


@pytest.mark.parametrize("old", ["short", LONGER])
def test_a_removal_that_fails_anywhere_leaves_all_or_nothing_readable(old: str) -> None:
    for number in range(1, 1000):
        vault = Vault()
        split(vault).set("github", old)
        vault.fails(range(number, 10_000))
        try:
            split(vault).delete("github")
        except StoreFault:
            vault.fails(range(0))
            assert split(vault).get("github") in {old, None}
            left = bool(vault.items)
            assert split(vault).delete("github") is left
        assert vault.items == {}
        if vault.calls < number:
            return
    pytest.fail("no removal takes a thousand calls")


def test_a_write_that_was_interrupted_is_swept_by_the_next() -> None:
    """A crash, or Ctrl-C, in the middle: nothing could be tidied."""

    class Interrupted(Vault):
        def set(self, user: str, text: str) -> None:
            if user == "github#b3":
                raise KeyboardInterrupt
            super().set(user, text)

    vault = Interrupted()
    split(vault).set("github", LONG)
    with pytest.raises(KeyboardInterrupt):
        split(vault).set("github", LONGER)
    assert "github#b2" in vault.items
    assert split(vault).get("github") == LONG
    split(vault).set("github", "short")
    assert vault.items == {"github": "short"}


def test_a_header_that_was_written_although_the_keyring_said_no_keeps_its_parts() -> None:
    class Lying(Vault):
        def set(self, user: str, text: str) -> None:
            super().set(user, text)
            if user == "github":
                raise StoreFault("unavailable", "the answer was lost")

    vault = Lying()
    with pytest.raises(StoreFault, match="the answer was lost"):
        split(vault).set("github", LONG)
    assert split(vault).get("github") == LONG


def exchanged(items: dict[str, str]) -> dict[str, str]:
    return {**items, "github#a1": items["github#a2"], "github#a2": items["github#a1"]}


DAMAGES: dict[str, Callable[[dict[str, str]], dict[str, str]]] = {
    "a part is missing": lambda items: {name: text for name, text in items.items() if name != "github#a2"},
    "a part of another write": lambda items: {**items, "github#a2": "a00000000" + items["github#a2"][9:]},
    "a changed part": lambda items: {**items, "github#a2": items["github#a2"][:-1] + "?"},
    "a shortened part": lambda items: {**items, "github#a2": items["github#a2"][:-1]},
    "two parts exchanged": exchanged,
    "a shortened header": lambda items: {**items, "github": items["github"][:-1]},
    "a newer format": lambda items: {**items, "github": items["github"].replace("parts:1:", "parts:2:")},
    "fewer parts in the header": lambda items: {**items, "github": items["github"].replace(":4:", ":3:")},
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_set_is_said_never_returned_and_can_be_set_again(
    damage: Callable[[dict[str, str]], dict[str, str]],
) -> None:
    vault = Vault()
    value = "".join(f"{number:04}" for number in range(1000))
    split(vault).set("github", value)
    before = dict(vault.items)
    vault.items = damage(vault.items)
    assert vault.items != before
    with pytest.raises(ItemFault) as raised:
        split(vault).get("github")
    assert (raised.value.state, raised.value.reason) == ("unavailable", DAMAGED)
    assert raised.value.fix == "acp-launch secret set github"
    split(vault).set("github", LONGER)
    assert split(vault).get("github") == LONGER
    split(vault).delete("github")
    assert "github" not in vault.items


@pytest.mark.parametrize("name", ["github", "github#a1"])
def test_what_cannot_be_read_can_be_set_again_and_removed(name: str) -> None:
    for text in (LONGER, "short"):
        vault = Vault()
        split(vault).set("github", LONG)
        vault.unreadable.add(name)
        with pytest.raises(ItemFault):
            split(vault).get("github")
        split(vault).set("github", text)
        assert split(vault).get("github") == text
        split(vault).delete("github")
        assert vault.items == {}


def test_a_value_that_is_replaced_while_it_is_read_is_read_again() -> None:
    class Busy(Vault):
        """Somebody else sets the secret between our look at the header and at the parts."""

        busy = False

        def get(self, user: str) -> str | None:
            if self.busy and "#" in user:
                self.busy = False
                split(self).set("github", LONGER)
            return super().get(user)

    vault = Busy()
    split(vault).set("github", LONG)
    vault.busy = True
    assert split(vault).get("github") == LONGER
