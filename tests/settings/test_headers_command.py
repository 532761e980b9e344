"""`headers_command` of the settings: which servers a command is for, and what is refused there."""

import re

import pytest

from acp_launch.document.scalars import Duration
from acp_launch.settings.address import nearest, read
from acp_launch.settings.check import choices
from acp_launch.settings.model import HeadersCommand

ORIGIN, BELOW, LOOPBACK = "https://mcp.example.com", "https://mcp.example.com/tools", "http://127.0.0.1:8931"
PLAIN = "expected an address that begins with https:// or http://"
PATH = "the path of the address holds ., .. or an escaped slash"


def test_a_command_is_read_with_the_time_its_headers_live() -> None:
    text = f"headers_command:\n  {ORIGIN}: {{command: [mint, a b]}}\n  {LOOPBACK}/: {{command: [mint], ttl: 10m}}\n"
    chosen, problems = choices(text, "config.yaml", {})
    assert (problems, chosen and chosen.headers_command) == (
        [],
        {
            ORIGIN: HeadersCommand(command=("mint", "a b"), ttl=Duration(300)),
            f"{LOOPBACK}/": HeadersCommand(command=("mint",), ttl=Duration(600)),
        },
    )


@pytest.mark.parametrize(
    ("covering", "urls"),
    [
        (
            ORIGIN,
            [
                ORIGIN,
                "HTTPS://MCP.Example.com:443/other?tenant=a#b",
                *(f"{ORIGIN}/{path}" for path in ("toolsmith", "tools/../other", "tools/%2e%2E/other", "/tools")),
                *(f"{ORIGIN}/{path}" for path in ("tools/..%2fother", "tools/..\\other")),
            ],
        ),
        (BELOW, [BELOW, f"{BELOW}/mcp"]),
        (LOOPBACK, [f"{LOOPBACK}/mcp"]),
        (
            None,
            [
                *("http://127.0.0.1:8932/mcp", "http://localhost:8931/mcp", "http://mcp.example.com", ""),
                *(f"{ORIGIN}{more}" for more in (":444", ".evil.example", ".", "@evil.example", "\\.evil.example")),
                *(f"{ORIGIN}{more}" for more in ("%2eevil.example", ":99999")),
                *("https://evil.example\\@mcp.example.com/", "https://[mcp.example.com", "https:mcp.example.com"),
            ],
        ),
    ],
)
def test_a_server_gets_the_command_of_the_longest_address_that_it_is_at(covering: str | None, urls: list[str]) -> None:
    assert {url: nearest((ORIGIN, BELOW, LOOPBACK), url) for url in urls} == dict.fromkeys(urls, covering)


def test_an_address_that_does_not_say_what_it_covers_is_refused() -> None:
    plain = [
        *("mcp.example.com", "ftp://mcp.example.com", "https://user@mcp.example.com", "https://mcp.example.com:99999"),
        *("https://[::1", " https://mcp.example.com", "${env:SERVER}"),
    ]
    query = {f"{ORIGIN}/?": "the address ends with a query or a fragment"}
    paths = [f"{ORIGIN}/{path}" for path in ("a/../b", "a%2Fb", "a//b")]
    for address, fault in (dict.fromkeys(plain, PLAIN) | dict.fromkeys(paths, PATH) | query).items():
        with pytest.raises(ValueError, match=f"^{re.escape(fault)}"):
            read(address)


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("{}", "command: this key is required"),
        ("{command: []}", "command: the command is empty"),
        ("{command: mint --all}", "command: expected a list"),
        ('{command: [" "]}', "command[0]: the program is empty"),
        ('{command: [mint, ""]}', "command[1]: this argument is empty"),
        ("{command: [mint], ttl: 25h}", 'ttl: expected a duration from 30s to 24h, found the text "25h"'),
        ("{command: [mint], ttl: 29s}", 'ttl: expected a duration from 30s to 24h, found the text "29s"'),
        ("{command: [mint], ttl: 5}", "ttl: expected a duration, found the number 5"),
        ("{comand: [mint]}", 'comand: unknown key "comand"; did you mean "command"?'),
    ],
)
def test_a_wrong_entry_has_its_place_and_a_fix(entry: str, fault: str) -> None:
    chosen, problems = choices(f"headers_command:\n  {ORIGIN}: {entry}\n", "config.yaml", {})
    assert chosen is None
    told = [str(problem) for problem in problems]
    assert [text for text in told if f'headers_command."{ORIGIN}".{fault}' in text], told
    assert all(problem.line == 2 and problem.fix for problem in problems)


def test_two_entries_for_one_address_and_one_that_is_not_encrypted_are_refused() -> None:
    entry = "{command: [mint]}"
    text = f"headers_command:\n  {ORIGIN}: {entry}\n  {ORIGIN}:443/: {entry}\n  http://intern/: {entry}\n"
    _, problems = choices(text, "config.yaml", {})
    assert [(problem.line, problem.message.partition(":")[0]) for problem in problems] == [
        (3, "this is the same address as https"),
        (4, "the headers would be sent unencrypted"),
    ]
