"""The format of the sealed file. Ours: what is not exactly what we wrote is refused, and said in the right words."""

import base64
import hashlib
import json
from functools import cache

import msgspec
import pytest
from cryptography.fernet import Fernet
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_launch.secret.sealed import (
    Broken,
    Entry,
    Kdf,
    Key,
    Sealed,
    _checksum,
    _encoded,
    derive,
    new_kdf,
    opens,
    parse,
    seal,
    unseal,
)
from acp_launch.secret.value import MAX_VALUE, Secret

PASSPHRASE = b"correct horse"
KEY_FILE = b"0123456789abcdef0123456789abcdef"
# Written once, and to be opened by every version that comes.
BY_PASSPHRASE = (
    b'{"format":"acp-launch sealed secrets","version":1,'
    b'"kdf":{"source":"passphrase","salt":"AAECAwQFBgcICQoLDA0ODw==","n":1024,"r":8,"p":1},'
    b'"crc32":754764908,"token":"'
    b"gAAAAABrCyjjr3f2X9qcdRdFGlwm6Vh0pbMqUcON4IaYHUjpYjaFkWUNC81VehJC3OyiSRZtwhw5izkz4m2v1yzVnK4FfmWZ8h1WnsHbzazt"
    b'Cp7XiZRzHmwyhwycnMETsD455cAGtWcGiLxhmUN51a2yHbsyieW9GQ=="}\n'
)
BY_KEY_FILE = (
    b'{"format":"acp-launch sealed secrets","version":1,'
    b'"kdf":{"source":"key file","salt":"AAECAwQFBgcICQoLDA0ODw==","n":2,"r":8,"p":1},'
    b'"crc32":1346239212,"token":"'
    b"gAAAAABrCyjj_2ildDeyQOX4n-wSTZzxpfIh1VjOf9llb6ZhA6G--Zy-tzhANEZqY7zTR9Fz5lQn3a7C2tkfm9jxhVMh7IJIBXRC4T0TVo6J"
    b'mdLs8V2fp7GPPSGf07ekadj8ldcPMlNHN6rzIef659n5urHbLEr-ew=="}\n'
)
NAME, VALUE, SET = "team/github", "gho_é\n😀", 1700000000.5
QUICK = Kdf("passphrase", bytes(16), n=2)  # the fuzz derives hundreds of keys
Values = dict[str, tuple[str, float]]
calm = settings(deadline=None)  # an import in the first example, a busy machine in any


@cache
def key(kdf: Kdf, material: bytes = PASSPHRASE) -> Key:
    return derive(kdf, material)


def sealed(values: Values, kdf: Kdf = QUICK) -> bytes:
    return seal({name: Entry(Secret(value), when) for name, (value, when) in values.items()}, key(kdf))


def opened(data: bytes) -> Values:
    """As any program that knows the passphrase opens a file: with the salt and the parameters that stand in it."""
    there = parse(data)
    entries = unseal(there, key(there.kdf))
    return {name: (entry.value.expose(), entry.set) for name, entry in entries.items()}


def kind(data: bytes) -> str:
    with pytest.raises(Broken) as broken:
        opened(data)
    return broken.value.kind


def resealed(plain: bytes) -> bytes:
    """A file that any holder of the key can make, with any content."""
    there = parse(sealed({}))
    return with_checksum(msgspec.structs.replace(there, token=key(there.kdf).fernet.encrypt(plain).decode()))


def with_checksum(there: Sealed) -> bytes:
    return _encoded(msgspec.structs.replace(there, crc32=_checksum(there)))


FILE = sealed({"github": ("gho_0123456789", 1.5), "linear": ("lin_é", 2.5)})


@calm
@given(st.dictionaries(st.text(), st.tuples(st.text(), st.floats(min_value=0, allow_infinity=False)), max_size=5))
def test_what_was_sealed_is_opened(values: Values) -> None:
    assert opened(sealed(values)) == values


@pytest.mark.parametrize(("data", "material"), [(BY_PASSPHRASE, PASSPHRASE), (BY_KEY_FILE, KEY_FILE)])
def test_a_file_of_the_first_version_stays_readable(data: bytes, material: bytes) -> None:
    there = parse(data)
    entries = unseal(there, derive(there.kdf, material))
    assert entries == {NAME: Entry(Secret(VALUE), SET)}


def test_a_file_can_be_opened_without_us() -> None:
    """What the docstring says is all there is to know."""
    there = json.loads(BY_PASSPHRASE)
    salt = base64.b64decode(there["kdf"]["salt"])
    derived = hashlib.scrypt(PASSPHRASE, salt=salt, n=1024, r=8, p=1, dklen=32)
    plain = Fernet(base64.urlsafe_b64encode(derived)).decrypt(there["token"])
    assert json.loads(plain) == {NAME: {"value": VALUE, "set": SET}}


def test_neither_names_nor_values_show_and_no_two_files_are_alike() -> None:
    again = sealed({"github": ("gho_0123456789", 1.5), "linear": ("lin_é", 2.5)})
    assert parse(again).token != parse(FILE).token
    assert not [word for word in (b"github", b"linear", b"gho_") if word in FILE]


def test_a_key_and_an_entry_do_not_show_what_they_hold() -> None:
    material = hashlib.scrypt(PASSPHRASE, salt=bytes(16), n=2, r=8, p=1, dklen=32)
    shown = repr(key(QUICK))
    assert "correct" not in shown and repr(material[:16])[2:-1] not in shown
    assert base64.urlsafe_b64encode(material).decode() not in shown
    assert repr(Entry(Secret("gho_1"), 1.5)) == "Entry(value=***, set=1.5)"


def test_another_passphrase_does_not_open_a_whole_file() -> None:
    there = parse(FILE)
    assert opens(key(there.kdf), there)
    assert not opens(key(there.kdf, b"incorrect horse"), there)
    with pytest.raises(Broken):
        unseal(there, key(there.kdf, b"incorrect horse"))


def test_every_cut_is_known_as_one() -> None:
    assert {kind(FILE[:length]) for length in range(len(FILE))} == {"cut off"}


@calm
@given(st.integers(0, len(FILE) - 1), st.integers(1, 255))
def test_one_changed_byte_is_noticed_and_never_blamed_on_the_passphrase(position: int, flip: int) -> None:
    changed = bytearray(FILE)
    changed[position] ^= flip
    assert kind(bytes(changed)) in {"changed", "foreign", "newer", "cut off"}


POSITION = st.integers(0, len(FILE))
EDITS = st.lists(st.tuples(POSITION, st.integers(0, 20), st.binary(max_size=20)), min_size=1, max_size=4)


@pytest.mark.whole
@settings(calm, max_examples=150)
@given(EDITS)
def test_no_edit_ever_opens_with_other_values(edits: list[tuple[int, int, bytes]]) -> None:
    data = FILE
    for position, removed, put in edits:
        data = data[:position] + put + data[position + removed :]
    if data == FILE:
        assert opened(data)
    else:
        assert kind(data) in {"changed", "foreign", "newer", "cut off"}


@calm
@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_anything_else_is_foreign(data: bytes) -> None:
    assert kind(data) == ("cut off" if FILE.startswith(data) else "foreign")


FORGED = st.fixed_dictionaries(
    {},
    optional={
        "kdf": st.builds(
            Kdf,
            st.sampled_from(["passphrase", "key file"]),
            st.binary(min_size=16, max_size=16),
            n=st.sampled_from([2, 4]),
        ),
        "token": st.text(max_size=200).filter(lambda text: text.encode(errors="ignore").decode() == text),
    },
)


@calm
@given(FORGED)
def test_a_changed_part_with_a_correct_checksum_is_noticed(parts: dict[str, object]) -> None:
    there = parse(FILE)
    forged = msgspec.structs.replace(there, **parts)
    if (forged.kdf.salt, forged.kdf.n, forged.token) == (there.kdf.salt, there.kdf.n, there.token):
        return
    assert not opens(key(forged.kdf), parse(with_checksum(forged)))
    assert kind(with_checksum(forged)) == "changed"


def test_what_a_file_makes_us_compute_is_bounded_before_it_is_computed() -> None:
    for kdf in [
        Kdf("passphrase", bytes(16), n=2**21, r=1),
        Kdf("passphrase", bytes(16), n=2**20, r=8),  # 1 GiB
        Kdf("key file", bytes(16), n=2**20, r=8),
        Kdf("passphrase", bytes(16), n=2**14, r=17),
        Kdf("passphrase", bytes(16), n=2, p=5),
        Kdf("passphrase", bytes(16), n=3),
        Kdf("passphrase", bytes(16), n=1),
        Kdf("passphrase", bytes(16), n=0),
        Kdf("passphrase", bytes(16), n=-(2**15)),
        Kdf("passphrase", bytes(16), n=2, r=0),
        Kdf("passphrase", bytes(16), n=2, p=-1),
        Kdf("passphrase", bytes(15), n=2),
        Kdf("key file", b"", n=2),
    ]:
        with pytest.raises(Broken) as broken:
            parse(with_checksum(msgspec.structs.replace(parse(FILE), kdf=kdf)))
        assert broken.value.kind == "changed"


@pytest.mark.parametrize("version", [2, 10**6, 10**18])
def test_a_newer_version_is_known_whatever_else_it_has(version: int) -> None:
    data = f'{{"format":"acp-launch sealed secrets","version":{version},"kdf":["argon2id"]}}\n'.encode()
    assert kind(data) == "newer"


@pytest.mark.parametrize(
    "version",
    ["0", "-1", "1.0", '"1"', "null", "true", str(10**30)],
    ids=["0", "-1", "1.0", "text", "null", "true", "∞"],
)
def test_no_other_version_is_ours(version: str) -> None:
    data = FILE.replace(b'"version":1', f'"version":{version}'.encode())
    assert kind(data) in {"changed", "newer"}


def test_the_same_meaning_in_other_bytes_is_refused() -> None:
    """One form only, so that no change is insignificant."""
    assert b'},"crc32"' in FILE
    there = json.loads(FILE)
    assert kind(FILE[:-1] + b" \n") == "cut off"
    assert kind(FILE.replace(b'},"crc32"', b'}, "crc32"')) == "changed"
    assert kind(FILE[:-2] + b',"version":1}\n') == "changed"
    assert kind(FILE[:-2] + b',"more":1}\n') == "changed"
    turned = {"format": there["format"], "kdf": there["kdf"], **there}
    assert kind(json.dumps(turned, separators=(",", ":")).encode() + b"\n") == "changed"


def test_a_million_brackets_are_damage_and_no_crash() -> None:
    data = b'{"format":"acp-launch sealed secrets","x":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}\n"
    assert kind(data) == "changed"


def test_what_is_under_a_good_seal_is_still_checked() -> None:
    for plain in [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"a":"v"}',
        b'{"a":{"value":1,"set":1.0}}',
        b'{"a":{"value":null,"set":1.0}}',
        b'{"a":{"value":"v"}}',
        b'{"a":{"value":"v","set":"now"}}',
        b'{"a":{"value":"v","set":NaN}}',
        b'{"a":{"value":"v","set":1.0,"more":1}}',
        b'{"a":{"value":"\xff","set":1.0}}',
        b'{"a":{"value":"\\ud800","set":1.0}}',
        b'{"a":{"value":"%s","set":1.0}}' % (b"v" * (MAX_VALUE + 1)),
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ]:
        assert kind(resealed(plain)) == "changed"


def test_the_check_of_what_is_under_the_seal_passes_what_is_right() -> None:
    assert opened(resealed(b'{"a":{"value":"%s","set":1.0}}' % (b"v" * MAX_VALUE))) == {"a": ("v" * MAX_VALUE, 1.0)}


def test_an_error_says_nothing_of_what_was_read() -> None:
    for plain in (b'{"a":{"value":["hunter22"],"set":1.0}}', b'{"hunter22":1}', b'{"a":{"hunter22":1}}'):
        with pytest.raises(Broken) as broken:
            opened(resealed(plain))
        error: BaseException | None = broken.value
        assert error is not None and error.__suppress_context__ and "hunter22" not in repr(error)


def test_only_secrets_are_sealed() -> None:
    with pytest.raises(TypeError, match="a object among the secrets"):
        seal({"a": object()}, key(QUICK))  # type: ignore[dict-item]


def test_every_salt_is_its_own() -> None:
    assert len({new_kdf("passphrase").salt for _ in range(100)}) == 100
    assert len(new_kdf("key file").salt) == 16


def test_by_default_guessing_a_passphrase_is_slow() -> None:
    kdf = new_kdf("passphrase")
    assert (kdf.n, kdf.r, kdf.p) == (2**15, 8, 1)
