"""The floor for `run`: the shortest honest client, ordinary Python with subprocess and json; checks nothing."""

import json
import subprocess
import sys


class Agent:
    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.next = 0

    def call(self, method: str, params: object) -> object:
        assert self.process.stdin
        assert self.process.stdout
        message = {"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.next:
                self.next += 1
                return answer["result"]
            sys.stdout.write(answer["params"]["update"]["content"]["text"])
        raise EOFError


def main() -> None:
    agent = Agent(sys.argv[1:])
    agent.call("initialize", {"protocolVersion": 1})
    session = agent.call("session/new", {"cwd": "/", "mcpServers": []})
    assert isinstance(session, dict)
    prompt = [{"type": "text", "text": "hello"}]
    agent.call("session/prompt", {"sessionId": session["sessionId"], "prompt": prompt})
    assert agent.process.stdin
    agent.process.stdin.close()
    agent.process.wait()


main()
