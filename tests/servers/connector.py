"""
A stdio server that is only a way to another one: it copies stdin to the Unix socket of its argument, and back.

Starting it costs next to nothing, whatever the server behind the socket needs.
"""

import os
import socket
import sys
import threading


def copy(source: int, sink: int) -> None:
    while data := os.read(source, 1 << 16):
        left = memoryview(data)
        while left:
            left = left[os.write(sink, left) :]


with socket.socket(socket.AF_UNIX) as line:
    line.connect(sys.argv[1])
    threading.Thread(target=copy, args=(line.fileno(), 1), daemon=True).start()
    copy(0, line.fileno())
