"""
Has a real container engine until the end of its input: `room.py PATH KIND DIRECTORY`, PATH that of enginroom.py.

Says as JSON on stdout its program and an image with python3, or why there is none. What the engine leaves comes here.
"""

import ctypes
import json
import runpy
import sys

path, kind, directory = sys.argv[1:]
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # a subreaper
room = runpy.run_path(path)
try:
    with room["EngineRoom"](directory, kind) as found:
        print(json.dumps([str(found.bin / kind), room["IMAGE"]]), flush=True)
        sys.stdin.read()
except room["Unavailable"] as error:
    print(json.dumps(str(error)), flush=True)
