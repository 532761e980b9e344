"""
What keeps a confined program from the kernel's keyrings: a filter of its system calls, for `bwrap --seccomp`.

Those of the login hold Kerberos tickets and keys of disks. A session keyring of its own would not do: a process may
still search the keyring of its user, and link that into its own. Programs that find no keyring use files (EPERM).
"""

import struct

# Each architecture as the kernel names it (linux/audit.h), and its add_key; request_key and keyctl are the next two.
_CALLS = {
    0xC000003E: 248,  # x86-64
    0x40000003: 286,  # i386
    0xC00000B7: 217,  # arm64
    0x40000028: 309,  # arm
    0xC00000F3: 217,  # riscv64
    0xC0000102: 217,  # loongarch64
    0xC0000015: 269,  # ppc64le
    0x80000016: 278,  # s390x
}
_X32 = 0x40000000  # set in the numbers of x86-64's other ABI
_LOAD, _EQUAL, _ABOVE, _AND, _MINUS, _RETURN = 0x20, 0x15, 0x25, 0x54, 0x14, 0x06  # instructions (linux/filter.h)
_REFUSE, _ALLOW = 0x00050000 | 1, 0x7FFF0000  # EPERM (linux/seccomp.h)


def make_filter() -> bytes:
    """Return the program that the kernel runs at each system call: `struct seccomp_data` begins with the number, and
    the architecture follows."""
    steps = list[tuple[int, int, int, int]]()  # the instruction, how many to skip if it is true or false, its value
    for architecture, first in _CALLS.items():
        steps += [(_LOAD, 0, 0, 4), (_EQUAL, 0, 5, architecture), (_LOAD, 0, 0, 0), (_AND, 0, 0, ~_X32 & 0xFFFFFFFF)]
        steps += [(_MINUS, 0, 0, first), (_ABOVE, 1, 0, 2), (_RETURN, 0, 0, _REFUSE)]
    return b"".join(struct.pack("=HBBI", *step) for step in (*steps, (_RETURN, 0, 0, _ALLOW)))
