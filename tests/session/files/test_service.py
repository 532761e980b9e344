"""Files for the agent, with a real file system: what it may have, what it gets, what is left when it fails."""

import asyncio
import ctypes
import errno
import os
import resource
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from acp_launch.plan.model import Mount, Place
from acp_launch.plan.place import arrange
from acp_launch.session import files as service
from acp_launch.session.events import FileEvent, Refusal
from acp_launch.session.files import BOM, Files, SessionFiles, fit_ends, run_in_thread
from tests.patience import PATIENCE

READ, WRITE = "fs/read_text_file", "fs/write_text_file"


@dataclass
class Desk:
    """Files that are served, and who decides about them."""

    root: Path
    others: tuple[Path, ...] = ()
    place: Place | None = None
    limit: int = 10 * 1024 * 1024
    answer: str = ""  # why not
    asked: list[dict[str, Any]] = field(default_factory=list)
    told: list[FileEvent] = field(default_factory=list)

    def files(self, *, may_write: bool = True) -> Files:
        roots = (self.root, *self.others)
        tell, limit = self.told.append, self.limit
        return Files(roots, may_write=may_write, allowed=self.allowed, tell=tell, limit=limit, place=self.place)

    async def allowed(self, call: dict[str, Any]) -> str:
        self.asked.append(call)
        return self.answer

    def read(self, path: Path | str, **params: object) -> str:
        result = served(self.files().services()[READ]({"sessionId": "s", "path": str(path), **params}))
        assert list(result) == ["content"]
        content: str = result["content"]
        return content

    def write(self, path: Path | str, content: str) -> None:
        params = {"sessionId": "s", "path": str(path), "content": content}
        assert served(self.files().services()[WRITE](params)) == {}

    def refuses(self, method: str, path: object, **params: object) -> Refusal:
        with pytest.raises(Refusal) as raised:
            served(self.files().services()[method]({"sessionId": "s", "path": path, **params}))
        return raised.value


def served(work: Any) -> Any:
    async def run() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await work

    return asyncio.run(run())


def said(refusal: Refusal) -> tuple[int, str]:
    return refusal.code, refusal.message


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").write_text("not yours")
    return Desk(tmp_path / "project")


def test_a_file_is_read_as_it_is_with_its_line_ends_and_its_mark(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_bytes(f"{BOM}one\r\ntwo\nthree\rfour\x0cé".encode())
    assert desk.read(path) == f"{BOM}one\r\ntwo\nthree\rfour\x0cé"
    assert desk.told == [FileEvent(path=str(path), how="read", outcome="done")]
    assert desk.asked == [{"kind": "read", "title": f"Read {path}", "locations": [{"path": str(path)}]}]


def test_lines_are_counted_from_one(desk: Desk) -> None:
    """C-70."""
    path = desk.root / "a.txt"
    path.write_text("1\n2\n3\n4")
    assert desk.read(path, line=1, limit=2) == "1\n2\n"
    assert desk.read(path, line=3) == "3\n4"
    assert desk.read(path, limit=1) == "1\n"
    assert desk.read(path, line=4, limit=4_294_967_295) == "4"
    assert desk.read(path, line=5) == ""
    assert desk.read(path, limit=0) == ""
    assert desk.read(path, line=None, limit=None) == "1\n2\n3\n4"
    assert desk.asked[0]["locations"] == [{"path": str(path), "line": 1}]


@pytest.mark.parametrize("value", [0, -1, 2**32, 1.5, "1", True, []])
def test_a_line_that_is_none_is_refused(desk: Desk, value: object) -> None:
    """The schema's uint32, and 1-based (C-70)."""
    (desk.root / "a.txt").write_text("text")
    refusal = desk.refuses(READ, str(desk.root / "a.txt"), line=value)
    assert said(refusal) == (-32602, '"line" must be a whole number, at least 1')
    assert not desk.asked
    assert not desk.told


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a.txt", '"path" must be absolute, not "a.txt"'),
        ("", '"path" must be absolute, not ""'),
        ("~/a.txt", '"path" must be absolute, not "~/a.txt"'),
        ("/a\0b", '"path" holds a NUL character'),
        ("/a\ud800b", '"path" is not valid text for a path'),
        (None, '"path" must be a string'),
        (7, '"path" must be a string'),
    ],
)
def test_a_path_that_is_none_is_refused(desk: Desk, path: object, message: str) -> None:
    assert said(desk.refuses(READ, path)) == (-32602, message)
    assert said(desk.refuses(WRITE, path, content="")) == (-32602, message)
    assert desk.asked == []


@pytest.mark.parametrize("method", [READ, WRITE])
@pytest.mark.parametrize(
    "way", ["../outside", "link", "directory/outside", "chain", "nowhere/../../outside", "../project-2", "link/below"]
)
def test_what_leads_out_of_the_directories_is_refused_whether_it_is_there_or_not(
    desk: Desk, method: str, way: str
) -> None:
    """C-70."""
    (desk.root / "link").symlink_to("../outside")
    (desk.root / "directory").symlink_to(desk.root.parent)
    (desk.root / "chain").symlink_to(desk.root / "link")
    path = f"{desk.root}/{way}"
    refusal = desk.refuses(method, path, content="mine now")
    assert said(refusal) == (-32602, f'"{path}" is outside the directories of this session')
    assert desk.asked == []
    how: Any = method.split("/")[1].split("_")[0]
    assert desk.told == [FileEvent(path=path, how=how, outcome="refused", reason=refusal.message)]
    assert (desk.root.parent / "outside").read_text() == "not yours"


def test_links_within_the_directories_are_followed_and_named_by_where_they_lead(desk: Desk) -> None:
    (desk.root / "src").mkdir()
    (desk.root / "src" / "a.txt").write_text("text")
    (desk.root / "link").symlink_to("src/a.txt")
    (desk.root / "lib").symlink_to("src")
    assert desk.read(desk.root / "link") == desk.read(desk.root / "lib" / "a.txt") == "text"
    desk.write(desk.root / "link", "new")
    assert (desk.root / "link").is_symlink()
    assert (desk.root / "src" / "a.txt").read_text() == "new"
    assert {call["locations"][0]["path"] for call in desk.asked} == {str(desk.root / "src" / "a.txt")}


def test_a_directory_of_the_session_may_be_a_link_and_keeps_its_name(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(desk.root)
    (desk.root / "a.txt").write_text("text")
    aliased = Desk(tmp_path / "alias")
    assert aliased.read(tmp_path / "alias" / "a.txt") == "text"
    assert aliased.read(desk.root / "a.txt") == "text"
    assert [step.path for step in aliased.told] == [str(tmp_path / "alias" / "a.txt")] * 2


def test_additional_directories_count_and_what_is_between_does_not(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.txt").write_text("text")
    both = Desk(desk.root, (tmp_path / "lib",))
    assert both.read(tmp_path / "lib" / "a.txt") == "text"
    assert both.refuses(READ, str(tmp_path / "outside")).code == -32602


def test_a_missing_file_is_said_with_its_path(desk: Desk) -> None:
    (desk.root / "file").write_text("")
    for path in (desk.root / "no", desk.root / "no" / "such", desk.root / "file" / "below"):
        refusal = desk.refuses(READ, str(path))
        assert said(refusal) == (-32002, f'there is no file "{path}"')
        assert refusal.data == {"path": str(path)}
    assert desk.asked == []
    assert desk.told[0] == FileEvent(
        path=str(desk.root / "no"), how="read", outcome="failed", reason=f'there is no file "{desk.root / "no"}"'
    )


@pytest.mark.parametrize("method", [READ, WRITE])
def test_what_is_no_regular_file_is_refused_without_being_opened(desk: Desk, method: str) -> None:
    """A FIFO's other end is not awaited; nothing happens to a device."""
    os.mkfifo(desk.root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(desk.root / "socket"))
        for name in ("fifo", "socket"):
            refusal = desk.refuses(method, str(desk.root / name), content="x")
            assert said(refusal) == (-32602, f'"{desk.root / name}" is not a regular file')
    for path in (desk.root, desk.root.parent / "project" / ""):
        refusal = desk.refuses(method, str(path), content="x")
        assert said(refusal) == (-32602, f'"{desk.root}" is a directory, not a file')
    assert desk.asked == []


@pytest.mark.parametrize("method", [READ, WRITE])
@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero", "/dev/tty"])
def test_a_device_is_no_file_even_of_a_session_that_lives_there(method: str, device: str) -> None:
    refusal = Desk(Path("/dev")).refuses(method, device, content="x")
    assert said(refusal) == (-32602, f'"{device}" is not a regular file')


@pytest.mark.skipif(sys.platform != "linux", reason="has no /proc")
@pytest.mark.parametrize("name", ["environ", "mem", "cmdline", "task/../maps"])
def test_a_session_in_the_root_directory_does_not_see_into_our_memory(name: str) -> None:
    real = os.path.realpath(f"/proc/self/{name}")
    for path in (f"/proc/self/{name}", f"/proc/{os.getpid()}/{name}"):
        refusal = Desk(Path("/")).refuses(READ, path)
        assert said(refusal) == (-32602, f'"{real}" is generated by the kernel')


def test_what_is_not_text_is_refused(desk: Desk) -> None:
    path = desk.root / "a.bin"
    path.write_bytes(b"\xff\xfe\x00")
    assert said(desk.refuses(READ, str(path))) == (-32602, f'"{path}" is not UTF-8 text')
    path.write_bytes(b"PK\0\0")
    assert said(desk.refuses(READ, str(path))) == (-32602, f'"{path}" is not text: it holds NUL characters')
    path.write_bytes(b"text\n" * 2 + b"\xff")
    assert desk.read(path, line=1, limit=2) == "text\ntext\n"


@pytest.mark.whole
def test_a_file_up_to_the_limit_is_read_and_a_larger_one_in_parts_only(desk: Desk) -> None:
    path = desk.root / "big"
    whole = "0123456789abcde\n" * (desk.limit // 16)
    path.write_text(whole)
    assert desk.read(path) == whole
    path.write_text(whole + "x")
    refusal = desk.refuses(READ, str(path))
    assert said(refusal) == (-32602, f'"{path}": 10 MiB is more than the limit of 10 MiB')
    assert desk.read(path, line=desk.limit // 16 + 1) == "x"
    refusal = desk.refuses(READ, str(path), limit=desk.limit)
    assert said(refusal) == (-32602, f'"{path}": the requested lines are larger than 10 MiB; request fewer lines')


def test_a_file_without_end_costs_neither_memory_nor_time(desk: Desk) -> None:
    path = desk.root / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    small = Desk(desk.root, limit=1 << 20)
    refusal = small.refuses(READ, str(path))
    assert said(refusal) == (-32602, f'"{path}": 1 TiB is more than the limit of 1 MiB')
    refusal = small.refuses(READ, str(path), line=2)
    assert said(refusal) == (-32602, f'"{path}": the requested line is beyond its first 64 MiB')


@pytest.mark.parametrize("method", [READ, WRITE])
def test_what_is_not_allowed_is_not_done_and_the_reason_is_told(desk: Desk, method: str) -> None:
    path = desk.root / "a.txt"
    path.write_text("old")
    desk.answer = "denied: permissions.default: deny"
    refusal = desk.refuses(method, str(path), content="new")
    assert said(refusal) == (-32603, "denied: permissions.default: deny")
    assert path.read_text() == "old"
    assert (desk.told[0].outcome, desk.told[0].reason) == ("refused", "denied: permissions.default: deny")


def test_a_write_is_asked_about_with_the_change_it_would_make(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_text("old")
    desk.write(path, "new")
    diff = {"type": "diff", "path": str(path), "oldText": "old", "newText": "new"}
    where = [{"path": str(path)}]
    assert desk.asked == [{"kind": "edit", "title": f"Write {path}", "locations": where, "content": [diff]}]
    assert desk.told == [FileEvent(path=str(path), how="write", outcome="done", old="old", new="new")]


def test_a_missing_file_is_made_and_so_are_its_directories(desk: Desk) -> None:
    """C-69; that the directories are made is ours."""
    before = os.umask(0o022)
    try:
        path = desk.root / "new" / "directories" / "a.txt"
        desk.write(path, "text")
    finally:
        os.umask(before)
    assert path.read_text() == "text"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    assert desk.asked[0]["title"] == f"Create {path}"
    assert desk.told == [FileEvent(path=str(path), how="write", outcome="done", created=True, new="text")]


def test_nothing_is_made_before_it_is_allowed(desk: Desk) -> None:
    desk.answer = "no"
    desk.refuses(WRITE, str(desk.root / "new" / "a.txt"), content="text")
    assert list(desk.root.iterdir()) == []


def test_a_link_that_leads_nowhere_within_is_written_through(desk: Desk) -> None:
    (desk.root / "link").symlink_to("target")
    desk.write(desk.root / "link", "text")
    assert (desk.root / "link").is_symlink()
    assert (desk.root / "target").read_text() == "text"


def test_a_link_that_leads_to_itself_is_an_error_in_words(desk: Desk) -> None:
    (desk.root / "loop").symlink_to("loop")
    refusal = desk.refuses(READ, str(desk.root / "loop"))
    assert said(refusal) == (-32602, f'"{desk.root / "loop"}" is not a regular file')


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o444 | 0o200, 0o4755])
def test_permission_bits_are_kept_and_setuid_is_not(desk: Desk, mode: int) -> None:
    path = desk.root / "run.sh"
    path.write_text("old")
    path.chmod(mode)
    desk.write(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode & 0o777


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_is_kept_where_we_may_and_else_it_is_ours(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    path = desk.root / "a.txt"
    path.write_text("old")
    os.chown(path, 12345, 54321)
    desk.write(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)

    def not_you(*args: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchown", not_you)
    desk.write(path, "newer")
    assert (path.read_text(), path.stat().st_uid) == ("newer", os.geteuid())


def test_line_ends_and_mark_of_the_file_are_kept(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_bytes(f"{BOM}one\r\ntwo\r\n".encode())
    desk.write(path, "one\nzwei\n")
    assert path.read_bytes() == f"{BOM}one\r\nzwei\r\n".encode()
    assert desk.told[0].new == f"{BOM}one\r\nzwei\r\n"


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        (None, "a\n", "a\n"),
        ("a\n", "b\n", "b\n"),
        ("a\r\nb\n", "c\n", "c\n"),  # mixed: unknown
        ("a", "b\nc", "b\nc"),
        ("a\r\n", "b\r\nc\n", "b\r\nc\n"),  # it has ends of its own
        ("a\r\n", "", ""),
        (f"{BOM}a", f"{BOM}b", f"{BOM}b"),
    ],
)
def test_only_a_text_without_line_ends_of_its_own_is_fitted(old: str | None, new: str, written: str) -> None:
    assert fit_ends(new, old) == written


def test_half_a_character_cannot_be_written(desk: Desk) -> None:
    refusal = desk.refuses(WRITE, str(desk.root / "a"), content="a\ud83d")
    assert said(refusal) == (-32602, '"content" holds half a surrogate pair, which is not valid text')
    assert list(desk.root.iterdir()) == []


def test_more_than_the_limit_is_neither_written_nor_replaced(desk: Desk) -> None:
    small = Desk(desk.root, limit=10)
    path = desk.root / "a"
    refusal = small.refuses(WRITE, str(path), content="x" * 11)
    assert said(refusal) == (-32602, f'"{path}": 11 bytes is more than the limit of 10 bytes')
    path.write_text("x" * 11)
    refusal = small.refuses(WRITE, str(path), content="y")
    assert said(refusal) == (-32602, f'"{path}": 11 bytes is more than the limit of 10 bytes')
    assert small.asked == []


def test_a_file_that_changed_while_the_user_was_asked_is_left_alone(desk: Desk) -> None:
    path = desk.root / "a"
    path.write_text("old")

    class Slow(Desk):
        async def allowed(self, call: dict[str, Any]) -> str:
            path.write_text("another's")
            return ""

    refusal = Slow(desk.root).refuses(WRITE, str(path), content="new")
    assert said(refusal) == (-32603, f'"{path}" has changed since it was read; read it again')
    assert path.read_text() == "another's"
    assert list(desk.root.iterdir()) == [path]


def test_a_link_that_appeared_while_the_user_was_asked_leads_nowhere(desk: Desk) -> None:
    (desk.root / "src").mkdir()
    path = desk.root / "src" / "outside"

    class Evil(Desk):
        async def allowed(self, call: dict[str, Any]) -> str:
            (desk.root / "src").rmdir()
            (desk.root / "src").symlink_to(desk.root.parent)
            return ""

    refusal = Evil(desk.root).refuses(WRITE, str(path), content="mine now")
    assert said(refusal) == (-32603, f'cannot write "{path}": it is a link')
    assert (desk.root.parent / "outside").read_text() == "not yours"


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """What a full disk does: a write takes part of what it is given, the next none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_half_way_leaves_the_old_file_and_nothing_else(desk: Desk) -> None:
    path = desk.root / "a"
    path.write_text("old")
    with file_size_limit(40_000):
        refusal = desk.refuses(WRITE, str(path), content="x" * 100_000)
    assert said(refusal) == (-32603, f'cannot write "{path}": file too large')
    assert path.read_text() == "old"
    assert list(desk.root.iterdir()) == [path]
    assert (desk.told[0].outcome, desk.told[0].reason) == ("failed", refusal.message)


@pytest.mark.parametrize("call", ["write", "fsync", "fchmod", "replace"])
def test_a_full_disk_is_said_wherever_it_is_noticed(desk: Desk, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = desk.root / "a"
    path.write_text("old")

    def full(*args: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        refusal = desk.refuses(WRITE, str(path), content="new")
    assert said(refusal) == (-32603, f'cannot write "{path}": no space left on device')
    assert path.read_text() == "old"
    assert list(desk.root.iterdir()) == [path]


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Without root's way past permission bits: threads that are started meanwhile have it from us."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; the lower 32, then the upper
    assert libc.capget(header, sets) == 0
    less = (ctypes.c_uint32 * 6)(*sets)
    less[0] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(header, less) == 0
    try:
        yield
    finally:
        assert libc.capset(header, sets) == 0


def test_what_is_read_only_stays(desk: Desk) -> None:
    path = desk.root / "a"
    path.write_text("old")
    path.chmod(0o444)
    with as_ordinary_user():
        assert desk.read(path) == "old"
        refusal = desk.refuses(WRITE, str(path), content="new")
    assert said(refusal) == (-32603, f'cannot write "{path}": permission denied')
    assert path.read_text() == "old"


def test_a_directory_that_may_not_be_written_to_is_said(desk: Desk) -> None:
    path = desk.root / "a"
    path.write_text("old")
    desk.root.chmod(0o555)
    try:
        with as_ordinary_user():
            for target in (path, desk.root / "b", desk.root / "c" / "d"):
                refusal = desk.refuses(WRITE, str(target), content="new")
                assert said(refusal) == (-32603, f'cannot write "{target}": permission denied')
    finally:
        desk.root.chmod(0o755)
    assert path.read_text() == "old"


def test_a_file_that_may_not_be_read_is_said(desk: Desk) -> None:
    path = desk.root / "a"
    path.write_text("old")
    path.chmod(0o200)
    with as_ordinary_user():
        assert said(desk.refuses(READ, str(path))) == (-32603, f'cannot read "{path}": permission denied')


def test_a_directory_that_may_be_passed_but_not_listed_is_passed(desk: Desk) -> None:
    if not hasattr(os, "O_PATH"):
        pytest.skip("needs O_PATH")
    (desk.root / "x").mkdir()
    (desk.root / "x" / "a").write_text("text")
    (desk.root / "x").chmod(0o111)
    try:
        with as_ordinary_user():
            assert desk.read(desk.root / "x" / "a") == "text"
    finally:
        (desk.root / "x").chmod(0o755)


EXCHANGE = getattr(ctypes.CDLL(None), "renameat2", None)


@pytest.mark.whole
@pytest.mark.skipif(EXCHANGE is None, reason="needs renameat2")
def test_a_directory_swapped_for_a_link_gives_nothing_from_outside(desk: Desk, tmp_path: Path) -> None:
    """C-70, against a race: what is checked is what is opened."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text("not yours")
    inside, link = desk.root / "d", desk.root / "l"
    inside.mkdir()
    (inside / "a").write_text("yours")
    link.symlink_to(tmp_path / "elsewhere")
    over = threading.Event()

    def swap() -> None:
        assert EXCHANGE is not None
        while not over.is_set():
            assert EXCHANGE(-100, bytes(inside), -100, bytes(link), 2) == 0  # AT_FDCWD, RENAME_EXCHANGE

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        seen = set(served(many(desk.files(), inside / "a", 300)))
    finally:
        over.set()
        swapping.join(PATIENCE)
    assert {"yours", "-32602"} <= seen, "the race was never run"
    assert "not yours" not in seen
    assert [(path.name, path.read_text()) for path in (tmp_path / "elsewhere").iterdir()] == [("a", "not yours")]


async def many(files: Files, path: Path, count: int) -> list[str]:
    """What came of reading and writing it, over and over."""
    outcomes = []
    for _ in range(count):
        try:
            result: Any = await files.services()[READ]({"path": str(path)})
            outcomes.append(result["content"])
            await files.services()[WRITE]({"path": str(path), "content": "yours"})
        except Refusal as refusal:
            outcomes.append(str(refusal.code))
    return outcomes


def test_writing_is_offered_only_where_it_may_be(desk: Desk) -> None:
    """C-20, C-68."""
    assert set(desk.files(may_write=False).services()) == {READ}
    assert set(desk.files(may_write=True).services()) == {READ, WRITE}


def test_writes_to_one_file_come_one_after_the_other_and_each_is_shown_what_it_replaces(desk: Desk) -> None:
    path = desk.root / "a"
    path.write_text("0")
    files = desk.files()

    async def run() -> None:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for number in range(1, 20):
                group.create_task(_write(files, path, str(number)))

    asyncio.run(run())
    changes = [(step.old, step.new) for step in desk.told]
    assert [old for old, _ in changes] == ["0", *[new for _, new in changes[:-1]]]
    assert {step.outcome for step in desk.told} == {"done"}
    assert path.read_text() == changes[-1][1]


async def _write(files: Files, path: Path, content: str) -> None:
    await files.services()[WRITE]({"path": str(path), "content": content})


def test_a_question_about_one_file_holds_up_no_other(desk: Desk) -> None:
    """C-11."""

    class Person(Desk):
        async def allowed(self, call: dict[str, Any]) -> str:
            if call["locations"][0]["path"].endswith("slow"):
                await self.answered.wait()
            return ""

        answered = asyncio.Event()

    person = Person(desk.root)
    files = person.files()

    async def run() -> None:
        async with asyncio.timeout(PATIENCE):
            slow = asyncio.create_task(_write(files, desk.root / "slow", "1"))
            again = asyncio.create_task(_write(files, desk.root / "slow", "2"))
            for number in range(3 * service.MAX_DISK_REQUESTS):
                await _write(files, desk.root / f"quick{number}", "text")
            assert not (desk.root / "slow").exists()
            again.cancel()  # while it waits for its turn
            await asyncio.wait({again})
            person.answered.set()
            await slow

    asyncio.run(run())
    assert (desk.root / "slow").read_text() == "1"


def test_a_disk_that_does_not_answer_holds_up_neither_others_nor_the_exit(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "DISK", 0.05)
    (desk.root / "a").write_text("text")
    stuck = threading.Event()
    real = os.fstat

    def hang(descriptor: int) -> os.stat_result:
        assert stuck.wait(PATIENCE)
        return real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(SessionFiles, "read", lambda *args: hang(0))
        refusal = desk.refuses(READ, str(desk.root / "a"))
    assert said(refusal) == (-32603, "the disk did not answer within 0.05 s")
    stuck.set()
    for thread in threading.enumerate():
        if thread.name == "a file for the agent":
            assert thread.daemon
            thread.join(PATIENCE)


def test_no_thread_for_the_disk_is_an_answer(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    refusal = desk.refuses(READ, str(desk.root / "a"))
    assert said(refusal) == (-32603, "cannot use the disk: no more threads are allowed")


def test_work_that_was_given_up_is_never_heard_of(desk: Desk) -> None:
    """Neither its result nor its error comes to a loop that is closed."""
    going, done = threading.Event(), threading.Event()

    def work() -> None:
        going.wait(PATIENCE)
        done.set()
        raise OSError("too late")

    async def run() -> None:
        await run_in_thread(work, name="given up", limit=0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(run())
    going.set()
    assert done.wait(PATIENCE)
    for thread in threading.enumerate():
        if thread.name == "given up":
            thread.join(PATIENCE)


def test_files_of_a_confined_agent_are_those_of_its_place(tmp_path: Path) -> None:
    """What it may only read is read, what it does not see is as outside; neither is written, not even as a new file."""
    root = tmp_path.resolve()
    for name in ("tools", "hidden", "hidden/mine"):
        (root / name).mkdir()
        (root / name / "a").write_text("old")
    (root / "way").symlink_to("tools")
    mounts = [
        Mount(root, "write", "session"),
        Mount(root / "tools", "read", "read"),
        Mount(root / "hidden", "empty", "system"),
        Mount(root / "hidden" / "mine", "write", "write"),
    ]
    desk = Desk(root, place=Place(program=Path("bwrap"), mounts=arrange(mounts)))
    assert desk.read(root / "tools" / "a") == desk.read(root / "way" / "a") == "old"
    for path in ("tools/a", "tools/new", "tools/sub/new", "way/a"):
        why = desk.refuses(WRITE, str(root / path), content="new").message
        assert why.endswith("may only be read (runtime.confined)"), why
    for path in ("hidden/a", "hidden/no"):
        for method in (READ, WRITE):
            said = desk.refuses(method, str(root / path), content="new")
            assert (said.code, said.message) == (-32602, f'"{root / path}" is outside the directories of this session')
    desk.write(root / "hidden" / "mine" / "a", "new")
    desk.write(root / "other" / "b", "new")
    assert [(root / name).read_text() for name in ("tools/a", "hidden/a", "hidden/mine/a", "other/b")] == [
        *("old", "old", "new", "new")
    ]
    assert not (root / "tools" / "sub").exists() and not (root / "hidden" / "no").exists()
    assert {Path(place["path"]) for call in desk.asked for place in call["locations"]} <= {
        *(root / name for name in ("tools/a", "hidden/mine/a", "other/b"))
    }, "the user is not asked about what is refused"
