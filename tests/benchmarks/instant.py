"""The same as instant.c, for machines without a compiler; run with -I -S."""

import sys


def serve(count: int, size: int) -> None:
    head = (
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
        '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'
    )
    tail = '"}}}}\n'
    update = head + "x" * max(0, size - len(head) - len(tail)) + tail
    for line in sys.stdin:
        id = line.split('"id":', 1)[1].split(",", 1)[0].rstrip("}\n")
        result = '{"stopReason":"end_turn"}'
        if '"initialize"' in line:
            result = '{"protocolVersion":1}'
        elif '"session/new"' in line:
            result = '{"sessionId":"s"}'
        else:
            for _ in range(count):
                sys.stdout.write(update)
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{id},"result":{result}}}\n')
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["line"]:
        serve(1, int(sys.argv[2]) << 20)
    else:
        serve(*(int(argument) for argument in [*sys.argv[1:], *["1", "150"][len(sys.argv) - 1 :]][:2]))
