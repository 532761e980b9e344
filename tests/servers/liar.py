"""Its tool `lie` answers a call wrongly in the way {how} names, and rightly after that with "the truth".

`twice` is the other way round: the truth comes first. `half` has half a character in its id, and the truth comes in the
same piece.
"""

import json
import sys
from collections.abc import Callable

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox
from tests.servers.script import Message

LIES: dict[str, Callable[[int], object]] = {
    "wrong_id": lambda id: {"jsonrpc": "2.0", "id": 424242, "result": {}},
    "other_type": lambda id: {"jsonrpc": "2.0", "id": str(id), "result": {}},
    "both": lambda id: {"jsonrpc": "2.0", "id": 424242, "result": {}, "error": {"code": 1, "message": "lie"}},
    "neither": lambda id: {"jsonrpc": "2.0", "id": 424242},
    "null_id": lambda id: {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "lie"}},
    "list": lambda id: {"jsonrpc": "2.0", "id": [id], "result": [1, 2]},
    "no_jsonrpc": lambda id: {"id": 424242, "result": {}},
    "number": lambda id: 17,
}


def lie(request: Message) -> None:
    if request["params"]["name"] != "lie":
        honest["tools/call"](request)
        return
    how = request["params"]["arguments"]["how"]
    if how == "half":
        truth = {"jsonrpc": "2.0", "id": request["id"], "result": toolbox.text("the truth")}
        script.write(b'{"jsonrpc":"2.0","id":"\\ud83d","result":{}}\n' + json.dumps(truth).encode() + b"\n")
        return
    if how in LIES:
        script.send(LIES[how](request["id"]))
    script.answer(request, toolbox.text("the truth"))
    if how == "twice":
        script.answer(request, toolbox.text("the truth again"))


script.hello(script.name("liar"))
honest = toolbox.answers(lie=lambda arguments: None)
script.serve({**honest, "tools/call": lie})
