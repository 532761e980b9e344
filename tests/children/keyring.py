"""Joins a session keyring of its own, puts a key into it and into the user's, and becomes the program that follows.

`python keyring.py ARGV...`. The keys are named acp-launch-test and hold `a key of the login`. Without ARGV it prints
what it finds of them instead: one line for each keyring.
"""

import ctypes
import os
import platform
import sys

ADD_KEY = {"x86_64": 248, "aarch64": 217}.get(platform.machine(), 0)
KEYCTL = ADD_KEY + 2
JOIN, SEARCH, READ, LINK = 1, 10, 11, 8
SESSION, USER = -3, -4
NAME, TEXT = b"acp-launch-test", b"a key of the login"
libc = ctypes.CDLL(None, use_errno=True)


def call(*words: object) -> "int | str":
    """Make a system call; the words of the system if it fails."""
    made = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    found = int(libc.syscall(*made))
    return found if found >= 0 else os.strerror(ctypes.get_errno())


def show(keyring: int) -> str:
    found = call(KEYCTL, SEARCH, keyring, b"user", NAME, 0)
    if isinstance(found, str):
        return found
    call(KEYCTL, LINK, keyring, SESSION)
    text = ctypes.create_string_buffer(100)
    read = call(KEYCTL, READ, found, text, len(text))
    return read if isinstance(read, str) else text.value.decode()


if __name__ == "__main__":
    if not sys.argv[1:]:
        print("\n".join(show(keyring) for keyring in (SESSION, USER)))
        sys.exit()
    for made in (
        call(KEYCTL, JOIN, None),
        *(call(ADD_KEY, b"user", NAME, TEXT, len(TEXT), keyring) for keyring in (SESSION, USER)),
    ):
        if isinstance(made, str):
            sys.exit(f"this kernel makes no keys: {made}")
    os.execvp(sys.argv[1], sys.argv[1:])
