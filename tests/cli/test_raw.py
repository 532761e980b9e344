"""
Nothing of an agent, a server or a file reaches a terminal raw, whatever verb shows it; and no line of ours is forged.

Ring 3: each verb runs on a real terminal, and every byte of what it wrote there is looked at.
"""

import json
import re
import subprocess
import sys
import unicodedata

import pytest

from tests.cli.launcher import DEMO, Launcher, command
from tests.cli.terminal import on_terminal
from tests.patience import PATIENCE

OSC, CLIPBOARD, HIDDEN = "\x1b]0;owned\x07", "\x1b]52;c;ZXZpbA==\x07", "\x1b[8mhidden\x1b[0m"
BIDI, C1, LINE = "\u202egnp.exe\u2066", "\x9b2J", "\u2028\x85"
OURS = "▐ acp-launch: type your keyring passphrase"
EVIL = f"{OSC}{CLIPBOARD}{HIDDEN}{BIDI}{C1}{LINE}\n{OURS}"
# In YAML these may stand as they are; of the others there are escapes, which are raw in what is made of them.
IN_YAML = f"{BIDI} {LINE} {OURS}"
TOOLS = (
    "claude",
    "vscode",
    "cursor",
    "codex",
    "gemini",
    "qwen",
    "copilot",
    "cline",
    "roo",
    "kiro",
    "windsurf",
    "crush",
    "zed",
    "opencode",
    "goose",
    "acpx",
    "jetbrains",
    "claude-desktop",
    "toad",
    "neovim",
    "emacs",
)


def assert_tame(written: str) -> None:
    """With NO_COLOR there is no escape sequence at all."""
    assert written
    for mark in written:
        drives = unicodedata.category(mark) in ("Cc", "Cf", "Cs", "Zl", "Zp") and mark not in "\n\r\t"
        assert not drives, f"{mark!r} in {written!r}"
    assert not [line for line in re.split(r"[\r\n]+", written) if line.startswith(OURS)]


def on_a_terminal(launch: Launcher, *arguments: str) -> str:
    with on_terminal(*arguments, cwd=launch.project, env={**launch.env, "TERM": "dumb"}) as terminal:
        terminal.ends()
    return terminal.raw.decode()


@pytest.fixture
def evil(launch: Launcher) -> Launcher:
    """A profile that holds whatever YAML lets it hold, raw and in escapes."""
    said, header = json.dumps(EVIL), json.dumps(EVIL.replace("\n", " "))
    (launch.project / ".acp-launch" / "p.yaml").write_text(
        f"# {IN_YAML}\n"
        f"version: 1\ndescription: {said}\n"
        f"agent: {json.dumps(DEMO)}\n"
        f"mcp_servers:\n  s: {{command: npx, args: [{said}], env: {{A: {said}}}}}\n"
        f"  h: {{type: http, url: 'https://example.com/mcp', headers: {{A: {header}}}}}\n"
    )
    return launch


VERBS = """
show p, show p --merged, list, list --json, validate, validate --json, plan p --json, trust p, doctor, mcp list p,
mcp list p --json, schema, permission list p, secret list, session list
"""


@pytest.mark.parametrize("verb", [verb.strip() for verb in VERBS.split(",")])
def test_no_verb_shows_a_file_raw(evil: Launcher, verb: str) -> None:
    assert_tame(on_a_terminal(evil, *verb.split()))


def test_no_export_is_raw_on_a_terminal_nor_in_a_file(evil: Launcher) -> None:
    """Of JSON and TOML that go to a pipe what cannot be seen is an escape, too, and means the same."""
    profile = {
        "agent": {"command": "cat", "args": [BIDI + C1 + "\u2028é"]},
        "mcp_servers": {"s": {"command": "${python}", "args": [BIDI + C1 + "\u2028é"], "env": {"A": BIDI}}},
    }
    evil.write(profile)
    for tool in TOOLS:
        piped = evil("export", "p", "--direct", "--to", tool)
        assert piped.code in (0, 2), piped.err
        text = piped.out.decode()
        assert all(mark.isprintable() or mark == "\n" for mark in text), text
        assert piped.code or "é" in text
    for tool in ("claude", "neovim", "emacs"):
        assert_tame(on_a_terminal(evil, "export", "p", "--direct", "--to", tool))


def test_a_file_goes_to_a_pipe_as_it_is(evil: Launcher) -> None:
    file = evil.project / ".acp-launch" / "p.yaml"
    assert evil("show", "p").out == file.read_bytes()


SCRIPT = f"""
EVIL = {EVIL!r}
def new(request):
    script.answer(request, {{"sessionId": "s" + EVIL}})
    script.update("s" + EVIL, "session_info_update", title=EVIL)
def prompt(request):
    s = "s" + EVIL
    script.update(s, "tool_call", toolCallId="1", title=EVIL, kind=EVIL, status="pending")
    script.update(s, "plan", entries=[{{"content": EVIL, "status": EVIL, "priority": "low"}}])
    script.update(s, "agent_thought_chunk", content={{"type": "text", "text": EVIL}})
    script.say(s, EVIL + "\\nthe end\\n")
    raw = '{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":' + json.dumps(s) + ',"update":'
    raw += '{{"sessionUpdate":"agent_message_chunk",\\r"content":{{"type":"text","text":"RAW"}}}}}}}}\\n'
    raw = raw.replace("RAW", "\\u202e\\x9b\\u2028é\\x7f")
    script.write(raw.encode())
    script.end(request)
import json
script.serve({{"session/new": new, "session/prompt": prompt}})
"""


def test_no_run_shows_an_agent_raw(launch: Launcher) -> None:
    launch.scripted(SCRIPT)
    for output, name in (("quiet", "none"), ("json", "other"), ("text", "one")):
        assert_tame(on_a_terminal(launch, "run", "p", "hi", "--output", output, "--session", name))
    for verb in ("session list", "session list --json", "session show one", "permission log", "logs p"):
        assert_tame(on_a_terminal(launch, *verb.split()))


def test_json_is_the_same_wherever_it_goes_and_says_what_was_said(launch: Launcher) -> None:
    launch.scripted(SCRIPT)
    done = launch("run", "p", "hi", "--output", "json")
    assert_tame(done.out.decode())
    said = [
        event["update"]["content"]["text"]
        for event in done.events
        if event["type"] == "update" and "content" in event["update"]
    ]
    assert said == [EVIL, EVIL + "\nthe end\n", "\u202e\x9b\u2028é\x7f"]
    assert "é" in done.out.decode(), "what can be seen is no escape"


def together(launch: Launcher, *arguments: str) -> str:
    """What stands in one pipe, given as stdout and stderr."""
    done = subprocess.run(
        command(*arguments),
        cwd=launch.project,
        env=launch.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE,
    )
    return done.stdout.decode()


@pytest.mark.parametrize("output", ["text", "quiet"])
def test_in_one_pipe_our_lines_are_known_by_their_mark(launch: Launcher, output: str) -> None:
    says = f"before\n{OURS}:\n▐ Allow ls? [y] yes\nafter\n"
    launch.scripted(
        "def prompt(request):\n"
        "    s = script.session_of(request)\n"
        f"    for piece in {list(says)!r}: script.say(s, piece)\n"
        "    sys.stderr.write('▐ acp-launch: from stderr\\n')\n"
        "    script.end(request)\n"
        "script.serve({'session/prompt': prompt})\n"
    )
    written = together(launch, "run", "p", "hi", "--output", output, "--verbose")
    stderr = "\\u2590 acp-launch: from stderr\n"
    assert written.count(stderr) == 1
    lines = written.replace(stderr, "").splitlines()  # it comes by a pipe of its own: at any place in the answer
    ours = [line for line in lines if line.startswith("▐")]
    assert [
        line for line in ours if "passphrase" in line or "Allow" in line or "stderr" in line or "mine" in line
    ] == []
    assert "\\u2590 acp-launch: type your keyring passphrase:" in lines


def test_in_one_pipe_no_line_of_ours_stands_behind_the_answers_last_line(launch: Launcher) -> None:
    launch.scripted(
        "def prompt(request):\n"
        "    s = script.session_of(request)\n"
        "    script.say(s, 'half a line')\n"
        "    script.update(s, 'agent_thought_chunk', content={'type': 'text', 'text': 'hm'})\n"
        "    script.say(s, 'the other half')\n"
        "    script.end(request, 'max_tokens')\n"
        "script.serve({'session/prompt': prompt})\n"
    )
    assert together(launch, "run", "p", "hi").splitlines() == [
        "half a line",
        "▐ thought: hm",
        "the other half",
        "▐ acp-launch: the agent stopped: its token limit is reached",
    ]
    assert launch("run", "p", "hi").out == b"half a line\nthe other half\n"


def test_last_words_that_we_quote_have_no_mark(launch: Launcher) -> None:
    server = {"command": sys.executable, "args": ["-c", "raise SystemExit('▐ acp-launch: mine')"]}
    launch.profile("polite", mcp_servers={"bad": {**server, "restart": {"max": 0}}})
    lines = together(launch, "run", "p", "hi").splitlines()
    assert "      \\u2590 acp-launch: mine" in lines
    assert any(line.startswith('▐ acp-launch: the MCP server "bad" failed: exited with status 1') for line in lines)
    assert any(line.startswith("▐     fix: ") for line in lines)
