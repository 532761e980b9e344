"""The conversations: what each front shows of one agent. `normalize` takes out what differs from run to run."""

import json
import re
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import acp_launch
from acp_launch.app.planning import loaded_profile
from acp_launch.app.spec import load_settings
from acp_launch.batch.model import FrozenProfile, Item
from acp_launch.batch.store import ANSWER, EVENTS
from acp_launch.profile.trust import digest_content
from tests.batch.directories import make_batch
from tests.cli.hosted import up
from tests.cli.launcher import DEMO, DEMO_SERVER, ROOT, SERVERS, Ended, Json, Launcher, patient
from tests.cli.serving import ABLE, serving
from tests.cli.terminal import on_terminal
from tests.cli.test_run_interactive import CTRL_D, asks
from tests.interactive.screen import on_screen

# Events that may come at any moment of a turn.
BESIDE = tuple(f'{{"type":"{name}"' for name in ("server", "servers", "unasked", "waiting"))
DECIDES = {"ask": {"default": "ask"}, "allow": {"default": "allow"}}
RULES = {"rules": [{"deny": {"kind": "edit"}}], "default": "allow"}
GONE = {"gone": {"command": str(SERVERS / "missing.py"), "required": True}}


@dataclass(frozen=True)
class Agent:
    """A profile with one of tests/agents, or the demo agent, and the prompt that it is sent."""

    temper: str
    arguments: tuple[str, ...] = ()
    prompt: str = "hello"
    sections: Mapping[str, Any] = field(default_factory=dict)

    def write(self, launch: Launcher) -> None:
        if self.temper == "demo":
            launch.write({"agent": DEMO, **self.sections})
        else:
            launch.profile(self.temper, *self.arguments, **self.sections)


AGENTS = {
    "polite": Agent("polite"),
    "every kind": Agent("every", prompt="everything", sections={"permissions": DECIDES["allow"]}),
    "unknown kinds": Agent("unknowns"),
    "tool call": Agent("demo", prompt="add 2 3", sections={"mcp_servers": {"notes": DEMO_SERVER}}),
    "denied by a rule": Agent("asker", sections={"permissions": RULES}),
    "denied without a user": Agent("asker", sections={"permissions": DECIDES["ask"]}),
    "allowed": Agent("asker", sections={"permissions": DECIDES["allow"]}),
    "refusal": Agent("refuser"),
    "limit": Agent("refuser", ("max_tokens",)),
    "error": Agent("refuser", ("error", "-32603", "quota exceeded", '{"kind": "quota"}')),
    "crash": Agent("crasher", ("mid-turn",)),
    "malformed": Agent("malformed"),
    "history": Agent("replayer", ("3",)),
    "missing server": Agent("polite", sections={"mcp_servers": GONE}),
}


def run_once(launch: Launcher, agent: Agent, *options: str) -> str:
    return show_run(launch("run", "p", agent.prompt, *options))


def run_session(launch: Launcher, agent: Agent, *options: str) -> str:
    """A named session, which is opened, and then resumed with its history."""
    return "".join(show_run(launch("run", "p", "-s", "named", prompt, *options)) for prompt in ("first", "second"))


def run_terminal(launch: Launcher, agent: Agent) -> str:
    """One prompt on a terminal."""
    with on_terminal("run", "p", agent.prompt, cwd=launch.project, env=launch.env) as terminal:
        code = terminal.ends()
        return f"== terminal\n{patient(terminal.text)}== exit {code}\n"


def run_interactive(launch: Launcher, agent: Agent) -> str:
    """A prompt in an interactive session, on a screen."""
    argv = [sys.executable, "-m", "acp_launch", "run", "p", "--trust"]
    with on_screen(*argv, cwd=launch.project, columns=100, rows=30, env=launch.env) as terminal:
        asks(terminal, agent.prompt, until=re.compile(r".*(ready|stopped|ended|refus)"))
        terminal.until("ready ·")
        shown = terminal.shown
        terminal.types(CTRL_D)
        return f"== screen\n{shown}\n== exit {terminal.ends()}\n"


def run_hosted(launch: Launcher, agent: Agent) -> str:
    """Two prompts to a host, of which the second is shown as text."""
    with up(launch) as host:
        first, second = (host.run(agent.prompt, *options) for options in (("-o", "json"), ()))
        heard = host.heard if host.transcript.exists() else []  # the demo agent writes none
        return show_run(first) + show_run(second) + show_heard(heard)


def serve_editor(launch: Launcher, agent: Agent) -> str:
    """A session of an editor: each line that it is sent."""
    is_valid = agent.temper not in ("malformed", "unknowns", "every")
    with serving(launch, answers={"session/request_permission": choose_first}, is_valid=is_valid) as editor:
        began = editor.request("initialize", {"protocolVersion": 1, "clientCapabilities": ABLE})
        opened = editor.request("session/new", editor.place()) if "result" in began else {}
        if "result" in opened:
            editor.prompt(opened["result"]["sessionId"], agent.prompt)
        editor.end()
        heard = editor.agent_heard if editor.transcript.exists() else []
        lines = b"".join(line.rstrip(b"\n") + b"\n" for line in editor.lines).decode()
        return f"== to the editor\n{lines}== stderr\n{patient(editor.told)}{show_heard(heard)}"


def choose_first(params: Json) -> Json:
    return {"result": {"outcome": {"outcome": "selected", "optionId": params["options"][0]["optionId"]}}}


def run_item(launch: Launcher, agent: Agent) -> str:
    """An item of a batch: its record and its files."""
    digest = digest_content(loaded_profile("p", load_settings()))
    item = Item(id="a.p", index=0, task="a", profile="p", prompt=agent.prompt, repo=str(launch.project))
    batch = make_batch(
        launch.project.parent / "batch",
        items=(item,),
        directory=str(launch.project),
        profiles={"p": FrozenProfile(called="p", file="p.yaml", digest=digest)},
    )
    done = launch("batch", "item", str(batch.path), "a.p")
    files = {each.name: each.read_text() for each in sorted(batch.directory_of("a.p", 1).iterdir())}
    kept = {name: files[name] for name in (ANSWER, EVENTS, "result.json") if name in files}
    return show_run(done) + "".join(f"== {name}\n{text.rstrip()}\n" for name, text in kept.items())


def show_run(done: Ended) -> str:
    lines = done.out.decode().splitlines(keepends=True)
    beside = [line for line in lines if line.startswith(BESIDE)]
    out = "".join([*(line for line in lines if line not in beside), *(["== beside it\n", *beside] if beside else [])])
    return f"== stdout\n{out}== stderr\n{patient(done.err)}== exit {done.code}\n{show_heard(done.heard)}"


def show_heard(heard: list[Json]) -> str:
    """What the agent was told."""
    return "== to the agent\n" + "".join(f"{json.dumps(message)}\n" for message in heard) if heard else ""


Front = Callable[[Launcher, Agent], str]


def run_json(launch: Launcher, agent: Agent) -> str:
    return run_once(launch, agent, "-o", "json")


def run_quiet(launch: Launcher, agent: Agent) -> str:
    return run_once(launch, agent, "-o", "quiet")


def resume(launch: Launcher, agent: Agent) -> str:
    return run_session(launch, agent, "-o", "json")


ALL = tuple(AGENTS)
CONVERSATIONS: dict[Front, tuple[str, ...]] = {
    run_once: ALL[1:],
    run_json: ALL,
    run_quiet: ("polite", "denied without a user"),
    resume: ("history", "polite"),
    run_terminal: ("allowed", "crash"),
    run_interactive: ("polite", "allowed"),
    run_hosted: ("polite", "tool call", "denied by a rule"),
    serve_editor: ("polite", "every kind", "denied by a rule", "error", "missing server"),
    run_item: ("polite", "denied without a user", "error", "crash"),
}

# What differs from run to run, and what stands for it.
DIFFERS = (
    (re.compile(r'("(?:pid|seconds|at)": ?)[\d.]+'), r"\1N"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "TIME"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\b\d{6,8}-\d{6}-[0-9a-f]{4}\b"), "NAME"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "HEX"),
    (re.compile(r"\b\d+(?:\.\d+)? (s|ms)\b"), r"N \1"),
    (re.compile(r"/tmp/[^\s\"']*"), "TEMPORARY"),
)


def normalize(text: str, launch: Launcher) -> str:
    known = {
        str(launch.project): "PROJECT",
        str(launch.project.parent): "TEST",
        launch.env["HOME"]: "HOME",
        sys.executable: "PYTHON",
        str(ROOT): "ROOT",
        acp_launch.__version__: "VERSION",
        socket.gethostname(): "MACHINE",
    }
    for path in sorted(known, key=len, reverse=True):
        text = text.replace(path, known[path])
    for pattern, name in DIFFERS:
        text = pattern.sub(name, text)
    return text
