"""
Starts a program and keeps every line that goes in and comes out: `python -I -S tests/editors/tap.py PROGRAM ARGS…`.

Lines to the program are appended to the file that `ACP_TEST_TRANSCRIPT` names, those from it to that name + ".sent", as
the programs of tests/agents do themselves.
"""

import os
import subprocess
import sys
import threading


def copy(source: int, target: int, path: str) -> None:
    """Until the end of either."""
    kept = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        while piece := os.read(source, 1 << 16):
            os.write(kept, piece)
            left = memoryview(piece)
            while left:
                left = left[os.write(target, left) :]
    except BrokenPipeError:
        pass  # the reader has ended, and so does this
    os.close(target)


def main() -> int:
    argv = sys.argv[1:]
    path = os.environ["ACP_TEST_TRANSCRIPT"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    inwards = threading.Thread(target=copy, args=(0, os.dup(process.stdin.fileno()), path), daemon=True)
    process.stdin.close()
    inwards.start()
    copy(process.stdout.fileno(), 1, f"{path}.sent")
    return process.wait()


if __name__ == "__main__":
    code = main()
    os._exit(code)  # the thread may still be reading
