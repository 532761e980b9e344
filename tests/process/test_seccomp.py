"""The filter of system calls in front of a confined program, as the kernel would run it."""

import struct

import pytest

from acp_launch.process.seccomp import make_filter

REFUSED, ALLOWED = 0x00050001, 0x7FFF0000
PROGRAM = list(struct.iter_unpack("=HBBI", make_filter()))
# linux/audit.h, and the numbers of add_key, ptrace and process_vm_writev
ARCHITECTURES = [
    (0xC000003E, 248, 101, 311),
    (0x40000003, 286, 26, 348),
    (0xC00000B7, 217, 117, 271),
    (0x40000028, 309, 26, 377),
    (0xC00000F3, 217, 117, 271),
    (0xC0000102, 217, 117, 271),
    (0xC0000015, 269, 26, 352),
    (0x80000016, 278, 26, 341),
]


def judge(architecture: int, call: int, *arguments: int) -> int:
    """Run the program on a system call (classic BPF)."""
    order = ">" if architecture == 0x80000016 else "<"
    data = struct.pack(f"{order}IIQ6Q", call, architecture, 0, *(*arguments, *[0] * 6)[:6])
    at, held = 0, 0
    while True:
        code, if_true, if_false, value = PROGRAM[at]
        at += 1
        match code:
            case 0x20:
                (held,) = struct.unpack_from(f"{order}I", data, value)
            case 0x15:
                at += if_true if held == value else if_false
            case 0x25:
                at += if_true if held > value else if_false
            case 0x35:
                at += if_true if held >= value else if_false
            case 0x45:
                at += if_true if held & value else if_false
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(code)


@pytest.mark.parametrize(("architecture", "key", "trace", "write"), ARCHITECTURES)
def test_keyrings_are_refused_and_what_takes_over_the_first_process(
    architecture: int, key: int, trace: int, write: int
) -> None:
    for arguments in ((), (7, 7), (0x4206, 2), (16, 2**32 - 1)):
        said = [judge(architecture, call, *arguments) for call in range(600)]
        assert {*said} == {REFUSED, ALLOWED}
        assert [call for call, each in enumerate(said) if each == REFUSED] == [key, key + 1, key + 2]
    assert [call for call in range(600) if judge(architecture, call, 0x4206, 1) == REFUSED] == sorted(
        [trace, key, key + 1, key + 2]
    )
    assert judge(architecture, write, 1, 7) == REFUSED


def test_the_other_abi_of_x86_64_is_refused() -> None:
    assert {judge(0xC000003E, 0x40000000 + call) for call in range(600)} == {REFUSED}


def test_an_unknown_architecture_is_allowed_everything() -> None:
    assert {judge(0xC0000016, call, 1, 1) for call in range(600)} == {ALLOWED}
