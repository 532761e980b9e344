"""
The rows of docs/internals.md, as ratios against a floor measured in the same run: `python -m tests.benchmarks.run [N]`.

A B A B …: each pair runs back to back, and what is quoted is the median of the pairs' ratios. Machines are shared
and noisy; nothing here is a test, and nothing here asserts.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = sys.executable
SCRIPT = Path(PYTHON).parent / "acp-launch"  # what people type
SLOWING = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}  # which nobody who has installed us is subject to
SLOWLY = ["/bin/sh", "-c", 'sleep 0.3; exec "$0" "$@"']  # before a command that needs so long to start
US = [str(SCRIPT)] if SCRIPT.exists() else [PYTHON, "-m", "acp_launch"]


@dataclass(frozen=True, slots=True)
class Run:
    wall: float
    cpu: float
    peak: float  # MiB, the largest single process


def run(command: Sequence[str], env: Mapping[str, str]) -> Run:
    """One process from start to end, as the kernel accounts for it (its children's CPU included)."""
    began = time.perf_counter()
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env
    )
    assert child.stderr
    words = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stderr.close()
    if child.returncode:
        raise SystemExit(f"{command} ended with {child.returncode}: {words.decode(errors='replace')}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    against: str
    budget: str
    figure: Callable[[Run], float]
    ours: Sequence[str]
    floor: Sequence[str]
    pairs: int
    unit: str = "ms"


def agent(scratch: Path) -> list[str]:
    """The instant agent: compiled where there is a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return [PYTHON, "-I", "-S", str(HERE / "instant.py")]
    binary = scratch / "instant"
    subprocess.run([compiler, "-O2", "-o", str(binary), str(HERE / "instant.c")], check=True)
    return [str(binary)]


def profile(scratch: Path, instant: Sequence[str], *arguments: str) -> str:
    """A 60-line profile that starts the instant agent."""
    name = f"bench{'-'.join(arguments)}.yaml"
    servers = "".join(
        f"  server{number}:\n    command: {PYTHON}\n    args: [-V]\n    bridge: false\n"
        f"    env:\n      NAME: value{number}\n"
        for number in range(8)
    )
    agent_lines = f"  command: {instant[0]}\n  args: [{', '.join([*instant[1:], *(repr(a) for a in arguments)])}]\n"
    head = "# A profile of a usual size\nversion: 1\ndescription: benchmark\nagent:\n"
    (scratch / name).write_text(
        f"{head}{agent_lines}  inherit_env: all\npermissions:\n  default: deny\nmcp_servers:\n{servers}"
    )
    return str(scratch / name)


def rows(scratch: Path, pairs: int) -> list[Row]:
    instant = agent(scratch)
    bare = [PYTHON, "-I", "-c", "pass"]
    raw = [PYTHON, str(HERE / "raw.py")]
    usual = profile(scratch, instant)
    uncached = ["env", "ACP_LAUNCH_CACHE_DIR=/dev/null/none", *US]
    few = max(3, pairs // 4)
    return [
        Row("--version, CPU", "python -I -c pass", "2x", cpu, [*US, "--version"], bare, pairs),
        Row("--help, CPU", "python -I -c pass", "-", cpu, [*US, "--help"], bare, pairs),
        Row(
            "validate, 60 lines, first time, CPU",
            "python -I -c pass",
            "9x",
            cpu,
            [*uncached, "validate", usual],
            bare,
            pairs,
        ),
        Row(
            "validate, 60 lines, checked before, CPU",
            "python -I -c pass",
            "5.5x",
            cpu,
            [*US, "validate", usual],
            bare,
            pairs,
        ),
        Row(
            "run, one shot, wall",
            "raw client",
            "4.2x",
            wall,
            [*US, "run", "--trust", usual, "hi"],
            [*raw, *instant],
            pairs,
        ),
        Row(
            "run --agent, wall",
            "raw client",
            "4.2x",
            wall,
            [*US, "run", "--agent", " ".join(instant), "hi"],
            [*raw, *instant],
            pairs,
        ),
        Row(
            "run, an agent that needs 300 ms, wall",
            "raw client",
            "1.25x",
            wall,
            slow(usual),
            [*raw, *SLOWLY, *instant],
            few,
        ),
        *(
            Row(f"TAB on {what}, CPU", "python -I -c pass", "10x", cpu, ["env", *pressed(typed), *US], bare, pairs)
            for what, typed in (("a verb", "va"), ("an option", "run --no"), ("a profile", "run de"))
        ),
        *volume(scratch, instant, raw, few),
        *sessions(scratch, few),
        *lists(scratch, pairs),
    ]


def pressed(typed: str) -> list[str]:
    """The environment in which typer's script for fish asks about a line."""
    line = [f"_TYPER_COMPLETE_ARGS=acp-launch {typed}", "_TYPER_COMPLETE_FISH_ACTION=get-args"]
    return ["_ACP_LAUNCH_COMPLETE=complete_fish", *line]


def slow(usual: str) -> list[str]:
    """A run of the same profile whose agent starts late."""
    text = Path(usual).read_text().replace("  args: [", f"  args: [-c, {SLOWLY[2]!r}, ", 1)
    command = next(line for line in text.splitlines() if line.startswith("  command: "))
    binary = command.removeprefix("  command: ")
    late = Path(usual).with_name("late.yaml")
    late.write_text(
        text.replace(command, "  command: /bin/sh", 1).replace(f"{SLOWLY[2]!r}, ", f"{SLOWLY[2]!r}, {binary}, ", 1)
    )
    return [*US, "run", "--trust", str(late), "hi"]


def volume(scratch: Path, instant: Sequence[str], raw: Sequence[str], pairs: int) -> Iterator[Row]:
    """Many updates, one long line, and secrets that are looked for in all of them."""
    many, long = profile(scratch, instant, "100000", "200"), profile(scratch, instant, "line", "48")
    for output, budget in (("json", "1.0x"), ("quiet", "1.0x"), ("text", "1.2x")):
        ours = [*US, "run", "--trust", "-o", output, many, "hi"]
        yield Row(
            f"100,000 updates of 200 B, {output}, wall",
            "raw client",
            budget,
            wall,
            ours,
            [*raw, *instant, "100000", "200"],
            pairs,
        )
    secret = Path(many).with_name("secret.yaml")
    names = [f"BENCH{number}" for number in range(10)]
    lines = "".join(f"    NAME{name}: ${{secret:{name.lower()}}}\n" for name in names)
    secret.write_text(Path(many).read_text().replace("  inherit_env: all\n", f"  inherit_env: all\n  env:\n{lines}"))
    given = ["env", *(f"ACP_LAUNCH_SECRET_{name}=sk-{os.urandom(18).hex()}" for name in names), *US, "run", "--trust"]
    for output in ("json", "quiet", "text"):
        with_them, without = ([*given, "-o", output, file, "hi"] for file in (str(secret), many))
        what = f"100,000 updates, ten secrets, {output}"
        yield Row(f"{what}, CPU", "without secrets", "1.3x", cpu, with_them, without, pairs)
    for output in ("json", "quiet", "text"):
        ours, floor = [*US, "run", "--trust", "-o", output, long, "hi"], [*raw, *instant, "line", "48"]
        yield Row(f"one 48 MB line, {output}, wall", "raw client", "linear", wall, ours, floor, pairs)
        yield Row(f"one 48 MB line, {output}, memory", "raw client", "1.0x", peak, ours, floor, pairs, "MiB")


def sessions(scratch: Path, pairs: int) -> Iterator[Row]:
    """A session that is continued and has no history, with an agent in Python."""
    agent = scratch / "load.yaml"
    replayer = HERE.parent / "agents" / "replayer.py"
    agent.write_text(f"version: 1\nagent:\n  command: {PYTHON}\n  args: [-I, -S, {replayer}, '0']\n")
    one_shot = [*US, "run", "--trust", str(agent), "hi", "--session"]
    continued, new = [*one_shot, "kept"], [*one_shot, "fresh", "--new"]
    yield Row("a continued session, empty replay, wall", "a new one", "1.2x", wall, continued, new, pairs)


def lists(scratch: Path, pairs: int) -> Iterator[Row]:
    """500 profiles that were checked before; 10,000 sessions."""
    for count in (1, 500):
        folder = scratch / f"profiles-{count}" / ".acp-launch"
        folder.mkdir(parents=True)
        (folder.parent / ".git").mkdir()
        for number in range(count):
            (folder / f"p{number}.yaml").write_text(
                f"version: 1\ndescription: number {number}\nagent:\n  command: {PYTHON}\n"
                f"mcp_servers:\n  one:\n    command: {PYTHON}\n"
            )
    for count in (1, 10_000):
        keep_sessions(scratch / f"sessions-{count}", count, project=str(scratch / "profiles-1"))
    within = ["sh", "-c", 'cd "$0" && exec "$@"']
    many, one = ([*within, str(scratch / f"profiles-{count}"), *US, "list"] for count in (500, 1))
    yield Row("list, 500 profiles, CPU", "1 profile", "3x", cpu, many, one, pairs)
    for more in ([], ["--json"]):
        listed = [*US, "session", "list", *more]
        many, one = (
            [*within, str(scratch / "profiles-1"), "env", f"ACP_LAUNCH_STATE_DIR={scratch}/sessions-{count}", *listed]
            for count in (10_000, 1)
        )
        yield Row(f"{' '.join(['session list', *more])}, 10,000, CPU", "1 session", "3x", cpu, many, one, pairs)


def keep_sessions(state: Path, count: int, *, project: str) -> None:
    from acp_launch.session import store as database
    from acp_launch.session.store import Record, open_registry

    with open_registry(state) as registry, database.transaction(registry._connection):
        for number in range(count):
            title = f"What session {number} is about, in a few words"
            record = Record(
                project, "bench", f"session-{number}", "id", "agent", "1", PYTHON, project, title, 0.0, number
            )
            registry.save(record)


def ten_secrets(pairs: int, env: Mapping[str, str]) -> str:
    """A row: the lookup within a process, against one session of the Secret Service that `env` leads to."""

    def seconds(side: str) -> float:
        command = [PYTHON, "-m", "tests.benchmarks.secrets", side]
        return float(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout)

    seconds("set"), seconds("ours"), seconds("floor")
    both = [(seconds("ours"), seconds("floor")) for _ in range(pairs)]
    ours, floor = zip(*both, strict=True)
    return _row("ten secrets, wall", "one Secret Service session", "1.5x", ours, floor)


def to_prompt(pairs: int, env: Mapping[str, str], cwd: Path) -> str:
    """A row: an interactive session, until it can be typed into, against a whole one-shot run."""
    from tests.benchmarks import interactive  # which imports this module

    ours, floor = interactive.to_prompt(pairs, env, cwd)
    return _row("run demo to the prompt, wall", "run demo hello", "1.5x", ours, floor)


def _row(what: str, against: str, budget: str, ours: Sequence[float], floor: Sequence[float]) -> str:
    ratios = [one / other for one, other in zip(ours, floor, strict=True)]
    ratio = f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"
    both = " | ".join(f"{statistics.median(side) * 1000:.0f} ms" for side in (ours, floor))
    return f"| {what} | {against} | {budget} | {ratio} | {both} | - |"


def wall(run: Run) -> float:
    return run.wall


def cpu(run: Run) -> float:
    return run.cpu


def peak(run: Run) -> float:
    return run.peak


def measured(row: Row, env: Mapping[str, str]) -> str:
    run(row.ours, env), run(row.floor, env)  # warm caches, compiled modules
    pairs = [(run(row.ours, env), run(row.floor, env)) for _ in range(row.pairs)]
    ratios = [row.figure(ours) / row.figure(floor) for ours, floor in pairs]
    scale = 1000 if row.unit == "ms" else 1
    ours, floor = (
        f"{statistics.median(row.figure(pair[side]) for pair in pairs) * scale:.0f} {row.unit}" for side in (0, 1)
    )
    most = max(pair[0].peak for pair in pairs)
    ratio = f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"
    return f"| {row.what} | {row.against} | {row.budget} | {ratio} | {ours} | {floor} | {most:.0f} MiB |"


def environment(scratch: Path) -> dict[str, str]:
    """The environment of what is measured, with a home of its own."""
    env = {name: value for name, value in os.environ.items() if name not in SLOWING}
    env |= {"HOME": str(scratch), "NO_COLOR": "1"}
    return env | {f"ACP_LAUNCH_{kind}_DIR": str(scratch / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE")}


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        env = environment(scratch)
        print("| what | against | budget | ratio, median (range) | ours | floor | our peak |")
        print("|---|---|---|---|---|---|---|")
        for row in rows(scratch, pairs):
            print(measured(row, env), flush=True)
        print(to_prompt(max(3, pairs // 4), env, scratch), flush=True)
        # Imported late: what is loaded here counts as the peak of small children, until they become another program.
        from tests.secret.bus import missing_programs, session_bus

        if missing := missing_programs():
            print(f"| ten secrets | | | not measured: {' and '.join(missing)} not installed | | | |")
        else:
            with session_bus() as desktop:
                desktop.start_keyring()
                print(ten_secrets(pairs, env | desktop.environ))
        print("\nMCP, through the seat:", flush=True)
        subprocess.run([PYTHON, "-m", "tests.benchmarks.seat"], env=env, cwd=HERE.parents[1], check=True)


if __name__ == "__main__":
    main()
