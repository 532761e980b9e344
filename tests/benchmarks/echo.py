"""An MCP server that does nothing but answer, for tests.benchmarks.servers; run with -I -S. `die` kills it."""

import os
import signal
import sys

HELLO = '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}'


def main() -> None:
    for line in sys.stdin:
        if '"id":' not in line:
            continue
        if '"die"' in line:
            os.kill(os.getpid(), signal.SIGKILL)
        id = line.split('"id":', 1)[1].split(",", 1)[0].rstrip("}\n")
        result = HELLO if '"initialize"' in line else '{"content":[{"type":"text","text":"pong"}]}'
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{id},"result":{result}}}\n')
        sys.stdout.flush()


main()
