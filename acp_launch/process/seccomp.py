"""
What a confined program is refused: a filter of its system calls, for `bwrap --seccomp`. Pure.

- The kernel's keyrings: those of the login hold Kerberos tickets and keys of disks. A session keyring of its own would
  not do: a process may still search the keyring of its user, and link that into its own.
- To take over the first process of its box, which the kernel ends with us only as long as that process wants it.
"""

import struct
from collections.abc import Iterator

# Each architecture as the kernel names it (linux/audit.h), and the numbers of add_key, which request_key and keyctl
# follow, of ptrace and of process_vm_writev.
_CALLS = {
    0xC000003E: (248, 101, 311),  # x86-64
    0x40000003: (286, 26, 348),  # i386
    0xC00000B7: (217, 117, 271),  # arm64
    0x40000028: (309, 26, 377),  # arm
    0xC00000F3: (217, 117, 271),  # riscv64
    0xC0000102: (217, 117, 271),  # loongarch64
    0xC0000015: (269, 26, 352),  # ppc64le
    0x80000016: (278, 26, 341),  # s390x, which is big-endian
}
_X32 = 0x40000000  # in the numbers of x86-64's other ABI, which no program here needs
# `struct seccomp_data`: the number of the call, the architecture, and from byte 16 on its arguments of 8 bytes.
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
_LOAD, _EQUAL, _ABOVE, _REACHES, _HAS, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06  # instructions (linux/filter.h)
_REFUSE, _ALLOW = (_RETURN, 0, 0, 0x00050000 | 1), (_RETURN, 0, 0, 0x7FFF0000)  # EPERM (linux/seccomp.h)
_Step = tuple[int, int, int, int]  # the instruction, how many to skip if it is true or false, and its value


def make_filter() -> bytes:
    """Return the program that the kernel runs at each system call."""
    steps = list[_Step]()
    for architecture, numbers in _CALLS.items():
        judged = [*_judge(*numbers, low=4 if architecture == 0x80000016 else 0)]
        steps += [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 0, len(judged), architecture), *judged]
    return b"".join(struct.pack("=HBBI", *step) for step in (*steps, _ALLOW))


def _judge(key: int, trace: int, write: int, *, low: int) -> Iterator[_Step]:
    """Judge a call of one architecture; `low` is where the lower half of an argument begins."""
    yield from ((_LOAD, 0, 0, _NUMBER), (_HAS, 0, 1, _X32), _REFUSE)
    yield from ((_REACHES, 0, 2, key), (_ABOVE, 1, 0, key + 2), _REFUSE)
    for number, argument in ((trace, _SECOND), (write, _FIRST)):
        yield from ((_EQUAL, 0, 4, number), (_LOAD, 0, 0, argument + low), (_EQUAL, 0, 1, 1), _REFUSE, _ALLOW)
    yield _ALLOW
