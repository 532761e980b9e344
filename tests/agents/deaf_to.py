"""Answers everything but one method: `deaf_to.py METHOD`."""

import json
import sys

OPTION = {
    "id": "model",
    "name": "Model",
    "category": "model",
    "type": "select",
    "currentValue": "small",
    "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}],
}
RESULTS = {
    "initialize": {"protocolVersion": 1},
    "session/new": {"sessionId": "s1", "configOptions": [OPTION]},
    "session/prompt": {"stopReason": "end_turn"},
    "session/set_config_option": {"configOptions": [{**OPTION, "currentValue": "large"}]},
}

for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and request["method"] != sys.argv[1]:
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": RESULTS[request["method"]]}
        print(json.dumps(answer), flush=True)
