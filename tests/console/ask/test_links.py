"""Visiting a page for an agent (C-74): all of the address, its host, and nothing without consent."""

import asyncio
import json
import os
import shlex
import shutil
import socket
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.console.ask import links
from acp_launch.console.ask.links import MAX_URL_CHARS, Links, WebAddress, read
from acp_launch.console.draw import sanitize
from acp_launch.process import detached
from acp_launch.session.elicitation import Action, Link
from tests.console.person import Scripted
from tests.patience import PATIENCE
from tests.secret.canaries import knowing

WAYS = "Visit it? o open in the browser / m I will open it myself / d decline / c cancel, without an answer"


def visited(person: Scripted, url: str, env: dict[str, str], message: str = "Please log in.") -> Action:
    async def scenario() -> Action:
        async with asyncio.timeout(PATIENCE):
            return await Links(person, "Demo Agent", env=env).visit(Link(message, url=url, id="e1"))

    return asyncio.run(scenario())


@pytest.fixture
def there(tmp_path: Path) -> dict[str, str]:
    """An environment with a browser that must not be started."""
    path = tmp_path / "firefox"
    path.write_text(f"#!/bin/sh\necho started > {tmp_path / 'started'}\n")
    path.chmod(0o755)
    return {"PATH": str(tmp_path), "BROWSER": "firefox"}


def test_the_browser_is_opened_with_what_was_shown_and_nothing_else(tmp_path: Path) -> None:
    """A real one: it gets the address as one argument, and no variable that holds a secret."""
    fifo = tmp_path / "said"
    os.mkfifo(fifo)
    script = tmp_path / "browser"
    tell = "import json, os, sys; json.dump([sys.argv[1:], dict(os.environ)], open(sys.argv[1], 'w'))"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{tell}" {fifo} "$@"\n')
    script.chmod(0o755)
    env = {"BROWSER": f"{script} --new", "ACP_LAUNCH_SECRET_X": "x", "ACP_LAUNCH_PASSPHRASE": "p", "LANG": "C"}
    person = Scripted("o")
    url = "https://example.com/a?b=c&d='e f'$(g);h#i".replace(" ", "%20")
    assert visited(person, url, env) == "accept"
    arguments, environment = json.loads(fifo.read_text())
    assert arguments == [str(fifo), "--new", url]
    assert environment["LANG"] == "C"
    assert {"ACP_LAUNCH_SECRET_X", "ACP_LAUNCH_PASSPHRASE"}.isdisjoint(environment)
    assert person.told == [
        "The agent Demo Agent asks you to visit a page:",
        "  | Please log in.",
        f"    {url}",
        "    on the host example.com",
        WAYS,
        f"Opening it with {script}. If no page appears, open the address by hand.",
    ]


@pytest.mark.parametrize(("key", "action"), [("m", "accept"), ("d", "decline"), ("c", "cancel"), (None, "cancel")])
def test_without_consent_to_it_nothing_is_opened(
    key: str | None, action: Action, there: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detached, "start", lambda argv, env: pytest.fail("something was started"))
    assert visited(Scripted(key), "https://example.com/", there) == action
    assert not (tmp_path / "started").exists()


def test_nothing_is_fetched_before_or_after_consent_but_by_the_browser(there: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as page:
        page.setblocking(False)
        assert visited(Scripted("m"), f"http://127.0.0.1:{page.getsockname()[1]}/", there) == "accept"
        with pytest.raises(BlockingIOError):
            page.accept()


def test_where_there_is_no_browser_it_can_be_opened_by_hand() -> None:
    person = Scripted("m")
    assert visited(person, "https://example.com/", {"PATH": "/nonexistent"}) == "accept"
    assert person.told[-2:] == [
        "No browser was found; open the address by hand.",
        "Visit it? m I will open it myself / d decline / c cancel, without an answer",
    ]


def test_a_browser_that_cannot_be_started_is_said_and_the_consent_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "start", lambda argv, env: "no room")
    person = Scripted("o")
    assert visited(person, "https://example.com/", {"BROWSER": "/bin/true"}) == "accept"
    assert person.of_tone("warning") == ["/bin/true did not start (no room). Open the address by hand."]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", 'begins with "file:"; only http and https can be opened'),
        ("javascript:alert(1)", 'begins with "javascript:"; only http and https can be opened'),
        ("example.com/login", "is not a web address"),
        ("//example.com", "is not a web address"),
        ("--help", "is not a web address"),
        ("", "is not a web address"),
        ("https://", "names no host"),
        ("https:///path", "names no host"),
        ("https:example.com", "names no host"),
        ("https://exa%6dple.com/", "names no host"),
        ("https://a..b/", "names no host"),
        ("https://[::1%25eth0]/", "names no host"),
        ("https://[::1/", "is not a web address"),
        ("https://example.com:99999/", "is not a web address"),
        ("https://exa\uff0fmple.com/", "is not a web address"),
        (f"https://{'ü' * 70}.com/", "is not a web address"),
        ("https://good.example\\@evil.example/", "contains characters that are not valid in a web address"),
        ("https://example.com/a b", "contains characters that are not valid in a web address"),
        ("https://example.com/\n", "contains characters that are not valid in a web address"),
        ("https://example.com/\x1b[2J", "contains characters that are not valid in a web address"),
        ("https://example.com/\u202egpj.exe", "contains characters that are not valid in a web address"),
        ("https://example.com/`id`", "contains characters that are not valid in a web address"),
        ("https://example.com/" + "a" * MAX_URL_CHARS, "is 8,020 characters long"),
    ],
)
def test_what_is_not_fit_to_be_opened_is_declined_with_a_word(url: str, reason: str, there: dict[str, str]) -> None:
    person = Scripted()
    assert visited(person, url, there) == "decline"
    assert person.of_tone("warning") == [f"The link {reason}: declined."]
    assert [line for line in person.told if not line.isprintable()] == []


IDN = "The host name has letters other than a to z: it may imitate a host you know."
USER = "The text before the @ is not the host."
PLAIN = "The connection is not encrypted: others on the network can read and change it."


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://example.com", WebAddress("https://example.com", "example.com")),
        ("HTTPS://EXAMPLE.com:8443/A?b#c", WebAddress("https://example.com:8443/A?b#c", "example.com")),
        ("http://localhost:3000/cb", WebAddress("http://localhost:3000/cb", "localhost")),
        ("http://[::1]:3000/", WebAddress("http://[::1]:3000/", "[::1]")),
        ("http://127.0.0.1/", WebAddress("http://127.0.0.1/", "127.0.0.1")),
        ("http://example.com/", WebAddress("http://example.com/", "example.com", (PLAIN,))),
        ("https://\u0430pple.com/", WebAddress("https://xn--pple-43d.com/", "xn--pple-43d.com", (IDN,))),
        ("https://xn--pple-43d.com/", WebAddress("https://xn--pple-43d.com/", "xn--pple-43d.com", (IDN,))),
        ("https://me@example.com/", WebAddress("https://me@example.com/", "example.com", (USER,))),
        (
            "http://google.com:x@bücher.example/",
            WebAddress("http://google.com:x@xn--bcher-kva.example/", "xn--bcher-kva.example", (IDN, USER, PLAIN)),
        ),
        ("https://example.com/é?q=ü", WebAddress("https://example.com/é?q=ü", "example.com")),
    ],
)
def test_what_is_shown_is_what_is_opened(url: str, address: WebAddress, there: dict[str, str]) -> None:
    assert read(url) == address
    person = Scripted("d")
    visited(person, url, there)
    assert f"    {address.url}" in person.told
    assert f"    on the host {address.host}" in person.told
    assert person.of_tone("warning") == list(address.warnings)


def test_an_address_that_would_carry_a_secret_away_is_declined(
    there: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "ghp_" + "a1B2c3D4e" * 4
    for module in (sanitize, links):
        monkeypatch.setattr(module, "redactor", knowing(token))
    person = Scripted()
    assert visited(person, f"https://example.com/?q={token}", there, f"see {token}") == "decline"
    assert person.told[1:] == [
        "  | see ***",
        "    https://example.com/?q=***",
        "The link contains a secret of this launch: declined.",
    ]


@given(st.text(max_size=30) | st.text("htps:/@[].%#?\\ü1-", max_size=20).map(lambda text: f"https://{text}"))
def test_any_text_is_an_address_or_is_none(url: str) -> None:
    """And reading one again changes nothing."""
    found = read(url)
    if isinstance(found, WebAddress):
        assert found.url.isprintable()
        assert found.host in found.url
        assert found.host.isascii()
        assert read(found.url) == found


def installed(tmp_path: Path, *names: str) -> str:
    for name in names:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("said", "argv"),
    [
        ("firefox", ["firefox", "%s"]),
        ("missing:firefox", ["firefox", "%s"]),
        ("lynx:firefox", ["firefox", "%s"]),
        ("firefox --private %s &", ["firefox", "--private", "%s"]),
        ("firefox '--url=%s'", ["firefox", "--url=%s"]),
        ("firefox 'unclosed:w3m", ["xdg-open", "%s"]),
        ("", ["xdg-open", "%s"]),
    ],
)
def test_the_browser_the_person_named_goes_first(said: str, argv: list[str], tmp_path: Path, linux: None) -> None:
    path = installed(tmp_path, "firefox", "lynx", "w3m", "xdg-open")
    found = links.command({"PATH": path, "BROWSER": said, "DISPLAY": ":0"})
    assert found == [str(tmp_path / argv[0]), *argv[1:]]


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")


def test_without_a_desktop_there_is_no_browser_but_that_of_windows(tmp_path: Path, linux: None) -> None:
    """xdg-open would look for one that takes the terminal."""
    path = installed(tmp_path, "xdg-open")
    assert links.command({"PATH": path}) is None
    assert links.command({"PATH": path, "WAYLAND_DISPLAY": "wayland-0"}) == [str(tmp_path / "xdg-open"), "%s"]
    assert links.command({"PATH": installed(tmp_path, "wslview")}) == [str(tmp_path / "wslview"), "%s"]


def test_on_a_mac_open_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(shutil, "which", lambda name, path: name)
    assert links.command({}) == ["/usr/bin/open", "%s"]
