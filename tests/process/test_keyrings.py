"""The filter that keeps kernel keyrings from a confined program, as the kernel would run it."""

import struct

import pytest

from acp_launch.process.keyrings import make_filter

REFUSED, ALLOWED = 0x00050001, 0x7FFF0000
ARCHITECTURES = [
    *((0xC000003E, 248), (0x40000003, 286), (0xC00000B7, 217), (0x40000028, 309)),
    *((0xC00000F3, 217), (0xC0000102, 217), (0xC0000015, 269), (0x80000016, 278)),
]


def judge(architecture: int, call: int) -> int:
    """Run the program on a system call (classic BPF)."""
    program = list(struct.iter_unpack("=HBBI", make_filter()))
    at, held = 0, 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        match code:
            case 0x20:
                held = {0: call, 4: architecture}[value]
            case 0x54:
                held &= value
            case 0x14:
                held = (held - value) % 2**32
            case 0x15:
                at += if_true if held == value else if_false
            case 0x25:
                at += if_true if held > value else if_false
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(code)


@pytest.mark.parametrize(("architecture", "first"), ARCHITECTURES)
def test_add_key_request_key_and_keyctl_are_refused_and_nothing_else(architecture: int, first: int) -> None:
    refused = [call for call in range(600) if judge(architecture, call) == REFUSED]
    assert refused == [first, first + 1, first + 2]
    assert {judge(architecture, call) for call in range(600)} == {REFUSED, ALLOWED}


def test_the_other_abi_of_x86_64_is_refused_too() -> None:
    judged = [judge(0xC000003E, 0x40000000 + call) for call in (247, 248, 250, 251)]
    assert judged == [ALLOWED, REFUSED, REFUSED, ALLOWED]


def test_an_unknown_architecture_is_allowed_everything() -> None:
    assert {judge(0xC0000016, call) for call in range(600)} == {ALLOWED}
