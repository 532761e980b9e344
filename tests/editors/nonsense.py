"""Ids, values and lines that a program should not send and that must do no harm; the same dice make the same ones."""

import json
import random

DEEP = (60, 900, 30_000)
PLAIN = (
    "0",
    "-0",
    "1",
    "1.0",
    "1e2",
    "-7",
    "null",
    '""',
    '"1"',
    '"null"',
    "1.50",
    '"\\u0041\\/\\"\\\\"',
    '"ü🙂"',
    '"a b"',
)
VALUES = (
    "{}",
    "[]",
    "null",
    "1e999",
    "-0.0",
    '"\\ud800"',
    '"\\udc00x"',
    '{"":{"":0}}',
    '{"a":1,"a":2}',
    '"\\u0000\\u2028"',
)
GARBAGE = (
    b"{",
    b"}",
    b"nul",
    b"\xff\xfe",
    b'{"jsonrpc":"2.0","id":',
    b'"\x80"',
    b"{'a': 1}",
    b"Loading...",
    b"\x1b[31mred",
)
ODD = (b"[]", b"1", b'"x"', b"null", b"{}", b'[{"jsonrpc":"2.0","id":1,"method":"x"}]', b'{"method":1}')
OF_AGENTS = (
    *(b"initialize", b"authenticate", b"logout", b"session/new", b"session/load", b"session/resume", b"session/fork"),
    *(b"session/list", b"session/delete", b"session/close", b"session/prompt", b"session/set_mode"),
    b"session/set_config_option",
)
OF_EDITORS = (
    *(b"session/request_permission", b"fs/read_text_file", b"fs/write_text_file", b"terminal/create"),
    *(b"terminal/output", b"terminal/release", b"terminal/wait_for_exit", b"terminal/kill", b"elicitation/create"),
)
MEMBERS = tuple(
    name.encode()
    for name in (
        *("sessionId", "sessionId", "sessionId", "cwd", "cwd", "mcpServers", "additionalDirectories", "prompt"),
        *("update", "toolCall", "options", "modes", "configOptions", "sessionUpdate", "title", "outcome", "_meta"),
        *("modeId", "configId", "value", "requestId", "protocolVersion", "agentCapabilities", "authMethods"),
        *("terminalId", "path", "content", "command", "stopReason", "sessions"),
    )
)
SHAPES = tuple(
    shape.encode()
    for shape in (
        *('"s"', '"s"', '"/tmp"', '"tmp"', '""', "[]", "{}", "null", "1", "-1.5", "true", '"end_turn"'),
        *('[{"name":1}]', '[{"name":"x","command":"x","args":5}]', '["/tmp",3]', '[{"type":"text","text":[]}]'),
        *('{"sessionUpdate":1}', '{"sessionUpdate":"tool_call","toolCallId":[]}', '{"toolCallId":"c","title":{}}'),
        *('{"toolCallId":"c","rawInput":[[]]}', '[{"optionId":1}]', '[{"optionId":"y","kind":"allow_once"}]'),
        *('{"outcome":"selected"}', '{"outcome":"selected","optionId":9}', '{"currentModeId":7}', '"\\ud800"'),
    )
)


def identity(dice: random.Random) -> bytes:
    """An id as JSON; often one of few, so that it is open twice."""
    if dice.randrange(2):
        return b"%d" % dice.randrange(30)
    return dice.choice(PLAIN).encode() if dice.randrange(2) else foreign(dice)


def foreign(dice: random.Random) -> bytes:
    """An id that `serve` does not give to a request."""
    if dice.randrange(2):
        return b"%d" % dice.randrange(10**29, 10**30)
    return json.dumps("x" * dice.choice((1, 40, 20_000))).encode()


def value(dice: random.Random) -> bytes:
    """Any JSON."""
    if dice.randrange(6) == 0:
        depth = dice.choice(DEEP)
        return b"[" * depth + b"]" * depth if dice.randrange(2) else b'{"a":' * depth + b"1" + b"}" * depth
    return dice.choice(VALUES).encode()


def garbage(dice: random.Random) -> bytes:
    """A line that is not JSON."""
    if dice.randrange(3):
        return dice.choice(GARBAGE)
    return b"\xf0" + bytes(dice.choice(range(11, 256)) for _ in range(dice.randrange(200)))


def odd(dice: random.Random) -> bytes:
    """A line that is JSON, and not JSON-RPC."""
    return dice.choice(ODD)


def members(dice: random.Random) -> bytes:
    """Parameters, or a result, that are about right: members of ACP with values that others have."""
    if dice.randrange(8) == 0:
        return value(dice)
    found = {dice.choice(MEMBERS): value(dice) if dice.randrange(9) == 0 else dice.choice(SHAPES) for _ in range(4)}
    return b"{%s}" % b",".join(b'"%s":%s' % each for each in found.items())
