"""Ring 1. Which addresses are of this machine: judged by their text alone."""

import pytest

from acp_launch.profile.values import is_local

NEAR = [
    "localhost",
    "LOCALHOST",
    "localhost.",
    "x.localhost",
    "127.0.0.1",
    "127.0.0.2",
    "127.1.1.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7F.1",
    "0177.0.0.1",
    "017700000001",
    "0.0.0.0",
    "0",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[0:0:0:0:0:0:0:1]",
]
FAR = [
    "example.com",
    "localhost.example.com",
    "mylocalhost",
    "127.0.0.1.example.com",
    "127.0.0.1.2",
    "128.0.0.1",
    "10.0.0.1",
    "2130706432.1",
    "4294967296",
    "0x",
    "08.0.0.1",
    "127.0x1000000",
    "[::2]",
    "[::ffff:10.0.0.1]",
    "[2001:db8::1]",
]


@pytest.mark.parametrize("host", NEAR)
def test_this_machine_in_every_spelling_that_a_resolver_takes(host: str) -> None:
    assert is_local(f"http://{host}:8080/mcp")
    assert is_local(f"https://{host}/")


@pytest.mark.parametrize("host", FAR)
def test_another_machine_whatever_its_name_leads_to(host: str) -> None:
    assert not is_local(f"http://{host}/mcp")
