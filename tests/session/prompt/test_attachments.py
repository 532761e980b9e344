"""What becomes of a file that is attached or mentioned (C-54), judged by the oracle as part of a prompt."""

import base64
import json
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.protocol.acp import Capabilities
from acp_launch.session import attachments, safepath
from acp_launch.session.attachments import AttachError, attach, blocks, examine, mentions, sniff
from tests.oracle import check_client_message

ALL = Capabilities(image=True, audio=True, embedded_context=True)
NONE = Capabilities()

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR"
FILES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF\0",
    "image/gif": b"GIF89a\x01\0\x01\0\0\0\0",
    "image/webp": b"RIFF\x1a\0\0\0WEBPVP8L",
    "audio/wav": b"RIFF\x24\0\0\0WAVEfmt ",
    "audio/mpeg": b"ID3\x04\0\0\0\0\0\0",
    "audio/ogg": b"OggS\0\x02\0\0",
    "audio/flac": b"fLaC\0\0\0\x22",
    "audio/mp4": b"\0\0\0\x20ftypM4A \0\0\0\0",
}


def judged(*content: dict[str, Any]) -> None:
    params = {"sessionId": "s", "prompt": list(content)}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params}).encode() + b"\n"
    assert check_client_message(line) == []


def made(tmp_path: Path, name: str, data: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def test_an_agent_on_another_machine_gets_no_link_to_a_file_here(tmp_path: Path) -> None:
    text, other = made(tmp_path, "a.py", b"x = 1\n"), made(tmp_path, "a.bin", b"\0")
    assert attach(text, ALL, machine="on build1")["type"] == "resource"
    for path, able in ((text, NONE), (other, ALL), (tmp_path, ALL)):
        with pytest.raises(AttachError, match="the agent is on build1, and of this file here it can take only a link"):
            attach(path, able, machine="on build1")
    with pytest.raises(AttachError, match="the agent is on build1"):
        blocks("see @a.bin", tmp_path, [], ALL, machine="on build1")
    assert len(blocks("see @nothing", tmp_path, [], ALL, machine="on build1")) == 1


def test_text_is_embedded_for_an_agent_that_takes_it(tmp_path: Path) -> None:
    path = made(tmp_path, "a b#ü.py", "print('ü')\n".encode())
    block = attach(path, ALL)
    uri = f"file://{tmp_path}/a%20b%23%C3%BC.py"
    assert block == {"type": "resource", "resource": {"uri": uri, "text": "print('ü')\n", "mimeType": "text/x-python"}}
    judged(block)


def test_text_is_linked_for_an_agent_that_does_not_take_it(tmp_path: Path) -> None:
    path = made(tmp_path, "notes.md", b"# Notes\n")
    block = attach(path, NONE)
    assert block == {
        "type": "resource_link",
        "uri": path.as_uri(),
        "name": "notes.md",
        "mimeType": "text/markdown",
        "size": 8,
    }
    judged(block)


def test_text_over_the_limit_is_linked_and_the_link_says_why(tmp_path: Path) -> None:
    path = made(tmp_path, "big.txt", b"x" * 2_000_001)
    assert attach(path, ALL, limit=2_000_001)["type"] == "resource"
    block = attach(path, ALL, limit=2_000_000)
    assert block == {
        "type": "resource_link",
        "uri": path.as_uri(),
        "name": "big.txt",
        "mimeType": "text/plain",
        "size": 2_000_001,
        "description": "1.9 MiB: too long to embed",
    }
    judged(block)


def test_the_limit_for_text_is_one_mebibyte(tmp_path: Path) -> None:
    assert attach(made(tmp_path, "fits", b"x" * (1 << 20)), ALL)["type"] == "resource"
    assert attach(made(tmp_path, "long", b"x" * ((1 << 20) + 1)), ALL)["type"] == "resource_link"


@pytest.mark.parametrize(
    "data",
    [
        b"caf\xe9",
        b"x" * 5000 + b"\xff",
        b"x" * 5000 + b"\0",
        b"x\xc3",
        b"\xff\xfea\0",
        b"\0\0\0\x20ftypisom",
        b"PK\x03\x04",
    ],
)
def test_what_is_not_utf8_text_is_linked_as_bytes(tmp_path: Path, data: bytes) -> None:
    path = made(tmp_path, "thing", data)
    expected = {
        "type": "resource_link",
        "uri": path.as_uri(),
        "name": "thing",
        "mimeType": "application/octet-stream",
        "size": len(data),
    }
    assert attach(path, ALL) == expected
    assert attach(path, NONE)["type"] == "resource_link"


@pytest.mark.parametrize(("mime", "data"), FILES.items())
def test_images_and_audio_are_known_by_their_bytes_and_not_by_their_name(
    tmp_path: Path, mime: str, data: bytes
) -> None:
    path = made(tmp_path, "misnamed.txt", data)
    block = attach(path, ALL)
    kind = mime.partition("/")[0]
    where = {"uri": path.as_uri()} if kind == "image" else {}
    assert block == {"type": kind, "data": base64.b64encode(data).decode(), "mimeType": mime, **where}
    judged(block)


def test_text_that_only_looks_like_an_image_or_audio_is_text(tmp_path: Path) -> None:
    for text in (b"GIF89a is a format", b"ID3 tags", b"OggS", b"RIFFabcdWEBP", b"fLaC"):
        assert attach(made(tmp_path, "photo.png", text), ALL)["resource"]["text"] == text.decode()


@pytest.mark.parametrize(
    ("mime", "what"),
    [("image/png", "images (promptCapabilities.image"), ("audio/wav", "audio (promptCapabilities.audio")],
)
def test_an_image_or_audio_the_agent_does_not_take_is_refused_and_only_linked_when_mentioned(
    tmp_path: Path, mime: str, what: str
) -> None:
    path = made(tmp_path, "file", FILES[mime])
    with pytest.raises(AttachError) as caught:
        attach(path, NONE)
    assert str(caught.value) == f"{path}: the agent does not accept {what} is not advertised)"
    assert caught.value.fix == "remove it, and name the file in the prompt so that the agent can open it itself"
    assert caught.value.exit_code == 2
    linked = attach(path, NONE, mention=True)
    assert (linked["type"], linked["mimeType"], linked["size"]) == ("resource_link", mime, len(FILES[mime]))


def test_an_image_over_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path, "a.png", PNG + b"x" * (20 << 20))
    with pytest.raises(AttachError) as caught:
        attach(path, ALL)
    assert str(caught.value) == f"{path}: 20.0 MiB is too large for an image in a prompt (at most 20.0 MiB)"
    assert attach(path, ALL, mention=True)["type"] == "resource_link"
    monkeypatch.setattr(attachments, "MEDIA_LIMIT", path.stat().st_size)
    assert attach(path, ALL)["type"] == "image"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.txt", "no such file or directory"),
        ("x" * 300, "file name too long"),
        ("nul\0byte", "not a valid path: .*embedded null (byte|character).*"),
    ],
)
def test_what_is_not_there_is_said_so(tmp_path: Path, name: str, message: str) -> None:
    path = tmp_path / name
    for look in (lambda: examine(path), lambda: attach(path, ALL, mention=True)):
        with pytest.raises(AttachError) as caught:
            look()
        assert re.fullmatch(f"{re.escape(str(path))}: {message}", str(caught.value))
        assert caught.value.fix


def test_fifos_sockets_and_devices_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "fifo", tmp_path / "socket", Path("/dev/zero")):
            for look in (lambda path=path: examine(path), lambda path=path: attach(path, ALL, mention=True)):
                with pytest.raises(AttachError) as caught:
                    look()
                assert str(caught.value) == f"{path}: neither a file nor a directory"


def test_a_file_that_becomes_a_fifo_after_the_look_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.setattr(attachments, "_is_directory", lambda path, roots: False)
    with pytest.raises(AttachError, match=r": neither a file nor a directory$"):
        attach(tmp_path / "fifo", ALL)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path, "private", b"x")
    path.chmod(0)
    with pytest.raises(AttachError) as caught:
        examine(path)
    assert str(caught.value) == f"{path}: permission denied"


def test_a_directory_is_linked(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    block = attach(tmp_path / "src", ALL, roots=[tmp_path])
    assert block == {
        "type": "resource_link",
        "uri": (tmp_path / "src").as_uri(),
        "name": "src",
        "mimeType": "inode/directory",
    }
    judged(block)


def test_a_link_is_named_by_its_path_below_a_root_and_its_uri_has_no_dots(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    path = made(tmp_path / "src", "app.py", b"pass\n")
    assert attach(path, NONE, roots=[tmp_path / "other", tmp_path])["name"] == str(Path("src", "app.py"))
    assert attach(tmp_path / "src" / ".." / "src" / "app.py", NONE)["uri"] == path.resolve().as_uri()


def test_a_typescript_file_is_no_video(tmp_path: Path) -> None:
    assert attach(made(tmp_path, "app.ts", b"let a = 1\n"), NONE)["mimeType"] == "text/plain"
    assert attach(made(tmp_path, "a.json", b"{}\n"), NONE)["mimeType"] == "application/json"
    assert attach(made(tmp_path, "a.pdf", b"%PDF-1.7\n\xe2\xe3\xcf\xd3\0"), NONE)["mimeType"] == "application/pdf"


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are Unicode there")
def test_a_file_name_that_is_no_unicode_still_makes_a_valid_prompt(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    path.write_text("x")
    block = attach(path, NONE)
    assert (block["name"], block["uri"]) == ("caf\N{REPLACEMENT CHARACTER}.txt", f"file://{tmp_path}/caf%E9.txt")
    judged(block)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux")
def test_a_file_without_a_size_is_read_as_far_as_it_goes() -> None:
    assert attach(Path("/proc/self/status"), ALL)["resource"]["text"].startswith("Name:")


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("look at @src/app.py, then @b.md.", ["src/app.py", "b.md"]),
        ('the "@a.txt" and (see @page(1).md) or `@c`', ["a.txt", "page(1).md", "c"]),
        ('@"my file.txt" and @"a@b"', ["my file.txt", "a@b"]),
        ("mail a@b.c or a.b+c@d.e, or me@", []),
        ("@", []),
        ("@ x @... @", []),
        ('@"" @"open', []),
        ("@~/notes @../up/ @/etc/hosts", ["~/notes", "../up/", "/etc/hosts"]),
        ("@schön.txt\n@日本/語", ["schön.txt", "日本/語"]),
        ("git clone git@host:x https://x/@scope/pkg", []),
        ("**@bold.md** and @snake_case.py!", ["bold.md", "snake_case.py"]),
    ],
)
def test_mentions_are_found_where_a_person_means_them(text: str, paths: list[str]) -> None:
    assert [each.path for each in mentions(text)] == paths


@given(st.text())
def test_mentions_lie_in_order_and_hold_what_they_say(text: str) -> None:
    end = 0
    for each in mentions(text):
        assert end <= each.start < each.end <= len(text)
        assert text[each.start : each.end] in {f"@{each.path}", f'@"{each.path}"'}
        end = each.end


@given(st.text(min_size=1).filter(lambda name: "\0" not in name and "/" not in name and name not in {".", ".."}))
def test_a_uri_gives_back_the_path(name: str) -> None:
    try:
        path = Path("/somewhere", name)
        os.fsencode(path)
    except UnicodeEncodeError:  # half a surrogate pair is no file name
        return
    parts = urlsplit(attachments._uri(path))
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("file", "", "", "")
    assert unquote(parts.path) == str(path)


@given(st.binary(max_size=600))
def test_any_bytes_are_something(head: bytes) -> None:
    content = sniff(head, "x")
    assert content.mime.partition("/")[0] == content.kind or content.kind in {"text", "other"}


@given(st.text())
def test_any_text_is_sent_first_and_unchanged(text: str) -> None:
    first, *_ = blocks(text, Path("/nonexistent"), [], ALL)
    assert first == {"type": "text", "text": text}


def test_a_prompt_carries_a_block_for_each_file_it_mentions_once(tmp_path: Path) -> None:
    more = tmp_path / "more"
    (more / "lib").mkdir(parents=True)
    made(tmp_path, "my notes.txt", b"hello")
    made(more, "extra.py", b"pass")
    text = 'read @"my notes.txt", @extra.py, @lib, @"my notes.txt" and @missing.txt, mail a@b.c'
    first, *rest = blocks(text, tmp_path, [tmp_path, more], ALL)
    assert first == {"type": "text", "text": text}
    assert [(each["type"], each.get("name") or each["resource"]["uri"]) for each in rest] == [
        ("resource", (tmp_path / "my notes.txt").as_uri()),
        ("resource", (more / "extra.py").as_uri()),
        ("resource_link", str(Path("more", "lib"))),
    ]
    judged(first, *rest)


def test_what_is_mentioned_and_is_no_file_stays_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for text in ("@fifo", "@/dev/zero", "@~nobody-of-that-name/x", "@" + "x" * 5000, '@"a\0b"'):
        assert blocks(text, tmp_path, [tmp_path], ALL) == [{"type": "text", "text": text}]


def test_the_home_directory_can_be_mentioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    made(tmp_path, "notes.txt", b"hello")
    _, block = blocks("@~/notes.txt", tmp_path / "elsewhere", [], ALL)
    assert block["resource"]["text"] == "hello"


@pytest.mark.parametrize("is_marked", [True, False])
@pytest.mark.parametrize("name", ["file", "way/file", "way"])
def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path, name: str, is_marked: bool) -> None:
    """An agent or a repository laid it: its target would go to the model. A project is marked, or the session's."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "file").write_text("private")
    project = tmp_path / "project"
    (project / "docs").mkdir(parents=True)
    (project / "docs" / "file").write_text("public")
    if is_marked:
        (project / ".git").mkdir()
    roots = [] if is_marked else [project]
    path = project / name
    (project / name.split("/")[0]).symlink_to(tmp_path / "keys" / ("file" if name == "file" else ""))
    looks: list[Callable[[], object]] = [
        lambda: examine(path, roots),
        lambda: attach(path, ALL, roots=roots, mention=True),
        lambda: blocks(f"see @{path}", project, roots, ALL),
    ]
    for look in looks:
        with pytest.raises(AttachError) as caught:
            look()
        target = tmp_path / "keys" / ("" if name == "way" else "file")
        assert str(caught.value) == f"{path}: a link leads out of the project, to {target}"
        assert caught.value.fix == "name that file itself"
    assert "private" in str(attach(tmp_path / "keys" / "file", ALL, roots=roots)), "it was named"
    (project / "inside").symlink_to("docs/file")
    (project / "near").symlink_to("docs")
    for within in ("inside", "near/file", "near/../docs/file"):
        assert "public" in str(attach(project / within, ALL, roots=roots))
    if is_marked:
        (tmp_path / "mine").symlink_to(project / "docs" / "file")
        assert "public" in str(attach(tmp_path / "mine", ALL)), "a link of the user's, into the project"


def test_a_link_that_is_laid_after_the_look_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").write_text("private")
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    path = made(project, "file", b"public")
    true_parent = safepath.parent

    @contextmanager
    def swap(pinned: safepath.PinnedPath) -> Iterator[tuple[int, str]]:
        with true_parent(pinned) as there:
            path.unlink()
            path.symlink_to(tmp_path / "keys")
            yield there

    monkeypatch.setattr(safepath, "parent", swap)
    with pytest.raises(AttachError, match=r"too many levels of symbolic links$"):
        attach(path, ALL)
