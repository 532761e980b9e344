"""Redacting streams: bytes cut anywhere, and our own stdout and stderr."""

import io
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_launch.secret.forms import forms
from acp_launch.secret.redact import SHOWN, Redactor, StreamRedactor, redacted_stream
from tests.patience import PATIENCE
from tests.secret.canaries import SECRETS, knowing, texts

TOKEN = "ghp_" + "a1B2c3D4e" * 4


def fed(stream: StreamRedactor, pieces: Sequence[bytes]) -> list[bytes]:
    """What comes out for each piece, and at the end."""
    return [*map(stream.feed, pieces), stream.end()]


def test_a_value_is_hidden_however_the_pipe_was_cut() -> None:
    whole = f"é {TOKEN} ünd {TOKEN[:-1]}!".encode() + b"\xff\xc3"
    hidden = f"é *** ünd {TOKEN[:-1]}!".encode() + b"\xff\xc3"
    for size in range(1, 50):
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert b"".join(fed(StreamRedactor(knowing(TOKEN)), pieces)) == hidden, size


def test_exactly_what_may_become_a_value_is_held_back() -> None:
    stream = StreamRedactor(knowing(TOKEN))
    assert fed(stream, [b"Password: gh", b"p", b"x ghp_a1B2", b"c3D4", b"-"]) == [
        b"Password: ",
        b"",
        b"ghpx ",
        b"",
        b"ghp_a1B2c3D4-",
        b"",
    ]


def test_five_bytes_that_are_held_at_the_end_come_out_as_they_are_and_more_are_hidden() -> None:
    assert fed(StreamRedactor(knowing(TOKEN)), [b"a ghp_a"]) == [b"a ", b"ghp_a"]
    assert fed(StreamRedactor(knowing(TOKEN)), [b"a ghp_a1"]) == [b"a ", b"***"]
    assert fed(StreamRedactor(knowing(TOKEN)), [TOKEN[:-1].encode()]) == [b"", b"***"]


def test_what_is_covered_is_hidden_now_and_the_rest_of_it_later() -> None:
    stream = StreamRedactor(knowing(TOKEN))
    assert [stream.feed(b"a " + TOKEN[:20].encode()), stream.cover(), stream.cover()] == [b"a ", b"***", b""]
    assert [stream.feed(TOKEN[20:25].encode()), stream.cover()] == [b"", b""]
    assert [stream.feed(TOKEN[25:].encode() + b"!"), stream.end()] == [b"!", b""]


def test_what_is_covered_and_turns_out_to_be_none_is_not_shown_after_all() -> None:
    stream = StreamRedactor(knowing(TOKEN))
    assert [stream.feed(b"ghp"), stream.cover(), stream.feed(b"_x."), stream.end()] == [b"", b"***", b"_x.", b""]


def test_two_bytes_are_not_covered_but_go_on_being_held() -> None:
    stream = StreamRedactor(knowing(TOKEN))
    assert [stream.feed(b"gh"), stream.cover(), stream.feed(TOKEN[2:].encode())] == [b"", b"", b"***"]
    assert [stream.feed(b"gh"), stream.cover(), stream.end()] == [b"", b"", b"gh"]


def test_a_stream_goes_on_after_its_end() -> None:
    stream = StreamRedactor(knowing(TOKEN))
    fed(stream, [TOKEN[:20].encode()])
    assert fed(stream, [TOKEN[20:].encode(), b" ", TOKEN.encode()]) == [TOKEN[20:].encode(), b" ", b"***", b""]


def test_a_value_that_repeats_itself_without_end_needs_no_memory() -> None:
    stream = StreamRedactor(knowing("abcabcabc"))
    assert stream.feed(b"abc" * 1000) == b"***"
    assert [stream.feed(b"abc") for _ in range(1000)] == [b""] * 1000
    assert [stream.feed(b"x"), stream.end()] == [b"x", b""]


def test_values_that_overlap_across_a_cut_are_hidden_together() -> None:
    three = knowing("abcdefgh", "fghijklm", "ghxxxx")
    assert fed(StreamRedactor(three), [b"<abcdefgh", b"ijklm>"]) == [b"<***", b">", b""]
    assert fed(StreamRedactor(three), [b"<abcdefgh", b"xxxx>"]) == [b"<***", b">", b""]
    assert fed(StreamRedactor(three), [b"<abcdefgh", b"i>"]) == [b"<***", b"i>", b""]


def test_without_secrets_the_very_bytes_pass() -> None:
    data = TOKEN.encode()
    assert StreamRedactor(Redactor()).feed(data) is data


@settings(deadline=None)
@given(SECRETS, st.data())
def test_a_stream_comes_out_as_if_it_had_come_in_one_piece(values: Sequence[str], data: st.DataObject) -> None:
    redactor = knowing(*values)
    known = [form.encode() for value in values for form in forms(value)]
    whole = data.draw(texts([form.decode() for form in known])).encode()
    if data.draw(st.booleans()):
        whole = whole[1:] + b"\xf0\x9f"  # cut within characters
    places = data.draw(st.lists(st.integers(0, len(whole)), max_size=12).map(sorted))
    out = b"".join(fed(StreamRedactor(redactor), [whole[a:b] for a, b in pairwise([0, *places, len(whole)])]))
    held = redactor.tables.data.held(whole) if redactor.tables else 0
    if held <= SHOWN:
        assert out == redactor.data(whole)
    else:
        assert out == redactor.data(whole[: len(whole) - held]) + b"***" or is_within_a_mask(redactor, whole, held)
    assert not [form for form in known if form in out]


def is_within_a_mask(redactor: Redactor, whole: bytes, held: int) -> bool:
    """Whether what is held at the end overlaps with a form, and so may have no mask of its own."""
    assert redactor.tables is not None
    return any(end > len(whole) - held for _, end in redactor.tables.data.spans(whole))


# stdout and stderr


class Terminal(io.StringIO):
    """A stream that says what a terminal says of itself."""

    def isatty(self) -> bool:
        return True


def test_what_is_written_is_redacted_and_the_rest_of_the_stream_is_its_own() -> None:
    written = Terminal()
    stream = redacted_stream(written, knowing(TOKEN))
    assert stream.write(f"a {TOKEN}\n") == len(TOKEN) + 3
    stream.writelines(["b\n", TOKEN])
    print(TOKEN, 1, file=stream, flush=True)
    assert written.getvalue() == "a ***\nb\n****** 1\n"
    assert stream.isatty()
    assert redacted_stream(stream) is stream


def test_bytes_under_a_text_stream_are_redacted_too() -> None:
    below = io.BytesIO()
    stream = redacted_stream(io.TextIOWrapper(below, encoding="utf-8"), knowing(TOKEN))
    assert stream.encoding == "utf-8"
    stream.buffer.write(memoryview(f"a {TOKEN} ".encode()))
    stream.buffer.writelines([TOKEN.encode(), b"\xff"])
    stream.buffer.flush()
    assert below.getvalue() == b"a *** ***\xff"


def test_a_write_of_no_text_fails_as_it_does_without_us() -> None:
    with pytest.raises(TypeError):
        redacted_stream(io.StringIO(), knowing(TOKEN)).write(b"")  # type: ignore[arg-type]


PROGRAM = """
import sys
from acp_launch.secret.redact import redactor
from acp_launch.secret.redact import install
from acp_launch.secret.value import Secret
TOKEN = "ghp_" + "a1B2c3D4e" * 4
install()
redactor.register(Secret(TOKEN))
install()
"""


def child(tmp_path: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """A process with our streams in place, running `lines`; nothing it says shows the value."""
    script = tmp_path / "script.py"
    script.write_text(PROGRAM + "\n".join(lines))
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert TOKEN not in ended.stdout + ended.stderr
    return ended


def test_an_uncaught_exception_does_not_show_the_value_in_its_traceback(tmp_path: Path) -> None:
    ended = child(
        tmp_path, "try:", "    int(TOKEN)", "except ValueError as error:", "    raise KeyError(TOKEN) from error"
    )
    assert ended.returncode == 1
    assert "ValueError: invalid literal for int() with base 10: '***'\n" in ended.stderr
    assert ended.stderr.endswith("KeyError: '***'\n")


def test_everything_that_writes_for_us_goes_through(tmp_path: Path) -> None:
    ended = child(
        tmp_path,
        "import logging, threading, typer, warnings",
        "from rich.console import Console",
        "print(TOKEN)",
        "typer.echo(f'typer {TOKEN}')",
        "typer.echo(f'bytes {TOKEN}'.encode())",
        "typer.secho(f'err {TOKEN}', err=True, fg='red')",
        "Console(width=200).print(f'rich {TOKEN}')",
        "logging.warning('log %s', TOKEN)",
        "threading.excepthook = lambda hooked: sys.__excepthook__(*hooked[:3])",
        "thread = threading.Thread(target=lambda: {}[TOKEN]); thread.start(); thread.join()",
        "sys.exit(TOKEN)",
    )
    assert ended.stdout == "***\ntyper ***\nbytes ***\nrich ***\n"
    assert ended.stderr.startswith("err ***\nWARNING:root:log ***\nTraceback (most recent call last):\n")
    assert ended.stderr.endswith("KeyError: '***'\n***\n")


def test_a_process_without_stdout_is_left_as_it_is() -> None:
    install = "from acp_launch.secret.redact import install; install()"
    code = f"import sys; sys.stdout = None; {install}; print(sys.stdout, file=sys.stderr)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ended.stderr == "None\n"
