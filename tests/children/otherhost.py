"""
Has another machine until the end of its input: `otherhost.py PATH DIRECTORY HIDDEN`, PATH that of sshroom.py.

Says as JSON on stdout where things of it are, or why there is none. Then each line of its input is a question.
"""

import json
import runpy
import sys
from collections.abc import Iterator
from typing import Any

path, directory, hidden = sys.argv[1:]
module = runpy.run_path(path)


def answers(room: Any) -> Iterator[Any]:
    yield {"bin": str(room.bin), "there": str(room.there)}
    for line in sys.stdin:
        match line.strip():
            case "processes":
                yield list(room.processes().items())
            case "files":
                yield room.files()
            case "cut":
                yield room.cut()
            case said:
                yield room.quiet(said == "quiet")


try:
    with module["SshRoom"](directory, hide=[hidden]) as room:
        for answer in answers(room):
            print(json.dumps(answer), flush=True)
except module["Unavailable"] as error:
    print(json.dumps(str(error)), flush=True)
