"""
The guard's own program: ends what a launch leaves behind when its launcher dies, by whatever means, and then itself.

Run as `python -I -S guardian.py` with nothing in its environment: it costs what an interpreter costs. It learns line by
line on stdin, whose other end nobody but the launcher holds:

    launch ID STARTED   the launch's id, and when its launcher was started
    record HEX          the path of the launch's record, which is removed when nothing is left
    + PID STARTED       a process of the launch; `- PID STARTED` when it is no more
    done                the launcher has ended everything itself

The end of stdin without `done` means that the launcher is dead.
"""

import _signal as signal  # type: ignore[import-not-found]  # see remains.py
import os
import sys

TYPE_CHECKING = False  # typing's would cost more than all of this
if TYPE_CHECKING:
    from acp_launch.process.remains import Known, Remains, end
else:  # alone as it is, it knows no package; and now, not when it is needed: the files may be gone by then
    sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120
    from remains import Known, Remains, end

    sys.path.pop(0)


class Lesson:
    """What the launcher has told."""

    def __init__(self) -> None:
        self.known: Known = set()
        self.launch = ""
        self.since = 0.0
        self.record = b""
        self.is_done = False

    def learn(self, line: bytes) -> None:
        match line.decode("ascii").split():
            case ["launch", launch, since]:
                self.launch, self.since = launch, float(since)
            case ["record", path]:
                self.record = bytes.fromhex(path)
            case ["+", pid, started]:
                self.known.add((int(pid), float(started)))
            case ["-", pid, started]:
                self.known.discard((int(pid), float(started)))
            case ["done"]:
                self.is_done = True


def listen(lesson: Lesson) -> None:
    """Until the launcher is done, or dead; half a line is its last word, and nobody's pid."""
    rest = b""
    while not lesson.is_done and (chunk := os.read(0, 65536)):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            lesson.learn(line)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    lesson = Lesson()
    listen(lesson)
    if not lesson.is_done:
        _, survivors = end(Remains(lesson.known, lesson.launch, lesson.since))
        if lesson.record and not survivors:
            _remove(lesson.record)
    os._exit(0)


def _remove(path: bytes) -> None:
    try:
        os.unlink(path)  # noqa: PTH108
    except OSError:
        return  # somebody was faster, or the directory is not to be written any more: the next start looks again


if __name__ == "__main__":
    main()
