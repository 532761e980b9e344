"""Writes 1 MB to stderr before it reads anything, then echoes one line; `chatty.py N` writes N bytes to stdout."""

import sys

if len(sys.argv) > 1:
    left = int(sys.argv[1])
    piece = bytes(1 << 16)
    while left:
        left -= sys.stdout.buffer.write(piece[:left])
    sys.stdout.buffer.flush()
else:
    sys.stderr.write(("x" * 99 + "\n") * 10_000)
    sys.stderr.flush()
    sys.stdout.write(sys.stdin.readline())
