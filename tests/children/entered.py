"""
acp-launch, which writes down the modules that it enters: `entered.py FILE WORD…` adds a line to a file for each count.

A module is entered when one of its functions is called. A count begins with the process, with the process of a batch's
run, or when an editor's prompt arrives; it ends with the process, or when the prompt's answer is written.
"""

import atexit
import inspect
import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NoReturn

PACKAGE = f"{os.sep}acp_launch{os.sep}"
file = Path(sys.argv.pop(1))
entered: set[str] = set()
counting = [os.getpid()]
is_answered = False
exit_now = os._exit


def is_ours(code: CodeType) -> bool:
    return PACKAGE in code.co_filename and bool(code.co_flags & inspect.CO_NEWLOCALS) and code.co_name[0] != "<"


def look(frame: FrameType, event: str, argument: Any) -> None:
    global is_answered
    code = frame.f_code
    if event == "return" and is_answered and code.co_qualname == "EditorLines._flush":
        is_answered = False
        count()
    if event != "call" or not is_ours(code):
        return
    match code.co_qualname:
        case "_become_run":
            counting[:] = [os.getpid()]
            entered.clear()
        case "EditorLines._take" if b'"session/prompt"' in frame.f_locals["chunk"]:
            entered.clear()
        case "EditorLines._flush":
            is_answered = any(b'"stopReason"' in line for line in frame.f_locals["self"]._unwritten)
    entered.add(code.co_filename.split(PACKAGE, 1)[1].removesuffix(".py"))


def count() -> None:
    if [os.getpid()] == counting:
        with file.open("a") as lines:
            lines.write(" ".join(sorted(entered)) + "\n")


def leave(status: int) -> NoReturn:
    sys.setprofile(None)
    count()
    exit_now(status)


atexit.register(count)
os._exit = leave
threading.setprofile(look)
sys.setprofile(look)

from acp_launch.__main__ import main  # noqa: E402 - it is watched

main()
