"""
One-shot verbs, lists, secrets and a batch, as ratios: `python -m tests.benchmarks.run [PAIRS]`, then the MCP servers.

Each row is measured as in tests.benchmarks.pairs, against a floor in the same run.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks.pairs import (
    BARE,
    HEAD,
    HERE,
    PYTHON,
    US,
    Row,
    Run,
    agent,
    compared,
    cpu,
    environment,
    peak,
    profile,
    row,
    run,
    wall,
    wanted,
)

SLOWLY = ["/bin/sh", "-c", 'sleep 0.3; exec "$0" "$@"']  # before a command that needs so long to start
PLAIN = "python -I -c pass"  # BARE
ITEMS, JOBS = 50, 2


def rows(scratch: Path, pairs: int) -> list[Row]:
    instant = agent(scratch)
    raw = [PYTHON, str(HERE / "raw.py")]
    usual = profile(scratch, instant)
    validate = [*US, "validate", usual]
    uncached = ["env", "ACP_LAUNCH_CACHE_DIR=/dev/null/none", *validate]
    one_shot = [*US, "run", "--trust", usual, "hi"]
    bare = [*US, "run", "--agent", " ".join(instant), "hi"]
    late = [*raw, *SLOWLY, *instant]
    few = max(3, pairs // 4)
    return [
        Row("--version, CPU", PLAIN, "2x", cpu, [*US, "--version"], BARE, pairs),
        Row("--help, CPU", PLAIN, "-", cpu, [*US, "--help"], BARE, pairs),
        Row("validate, 60 lines, first time, CPU", PLAIN, "9x", cpu, uncached, BARE, pairs),
        Row("validate, 60 lines, checked before, CPU", PLAIN, "5.5x", cpu, validate, BARE, pairs),
        Row("run, one shot, wall", "raw client", "4.2x", wall, one_shot, [*raw, *instant], pairs),
        Row("run --agent, wall", "raw client", "4.2x", wall, bare, [*raw, *instant], pairs),
        Row("run, an agent that needs 300 ms, wall", "raw client", "1.25x", wall, slow(usual), late, few),
        *(
            Row(f"TAB on {what}, CPU", PLAIN, "10x", cpu, ["env", *pressed(typed), *US], BARE, pairs)
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
        ours, floor = [*US, "run", "--trust", "-o", output, many, "hi"], [*raw, *instant, "100000", "200"]
        yield Row(f"100,000 updates of 200 B, {output}, wall", "raw client", budget, wall, ours, floor, pairs)
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
    for count in (1, 10, 500):
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
    many, few = ([*within, str(scratch / f"profiles-{count}"), *US, "list"] for count in (500, 10))
    yield Row("list, 500 profiles, CPU", "10 profiles", "2.5x", cpu, many, few, pairs)
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

    seconds("set")
    both = compared(lambda: seconds("ours"), lambda: seconds("floor"), pairs)
    return row("ten secrets, wall", "one Secret Service session", "1.2x", both)


def batches(scratch: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Rows: a batch of instant items against `xargs` with the same runs, both two at once."""
    command, *args = agent(scratch)
    (scratch / "instant.yaml").write_text(f"version: 1\nagent: {{command: {command}, args: {json.dumps(args)}}}\n")
    tasks = [{"id": f"t{each}", "prompt": "hi"} for each in range(ITEMS)]
    batch = {"version": 1, "profiles": ["./instant.yaml"], "tasks": tasks, "limits": {"jobs": JOBS}}
    (scratch / "batch.yaml").write_text(json.dumps(batch))
    xargs = ["xargs", f"-P{JOBS}", "-I{}", *US, "run", "--trust", "--output", "json", "./instant.yaml", "hi"]
    numbers = "\n".join(map(str, range(ITEMS))).encode()
    engines = {"local": ("1.2x", ())} | ({"dask": ("1.5x", ("--engine", "dask"))} if find_spec("distributed") else {})
    for engine, (budget, option) in engines.items():
        words = [*US, "batch", "run", "batch.yaml", "--trust", *option, "--out"]

        def ours(words: Sequence[str] = words) -> Run:
            out = tempfile.mkdtemp(dir=scratch)
            return run([*words, f"{out}/batch"], env, ends=(0, 9), cwd=str(scratch))  # an instant item is empty

        both = compared(ours, lambda: run(xargs, env, given=numbers, cwd=str(scratch)), 1, warm=False)
        for what, figure in (("wall", wall), ("CPU", cpu)):
            figures = [(figure(one), figure(floor)) for one, floor in both]
            yield row(f"a batch of {ITEMS} by the {engine} engine, {what}", "xargs", budget, figures)


def main() -> None:
    pairs = wanted(15)
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        env = environment(scratch)
        print(HEAD)
        for each in rows(scratch, pairs):
            print(each.measured(env), flush=True)
        for text in batches(scratch, env):
            print(text, flush=True)
        # Imported late: what is loaded here counts as the peak of small children, until they become another program.
        from tests.benchmarks.fronts import to_prompt
        from tests.secret.bus import missing_programs, session_bus

        print(to_prompt(max(3, pairs // 4), env, scratch), flush=True)
        if missing := missing_programs():
            print(f"| ten secrets | | | not measured: {' and '.join(missing)} not installed | | | |")
        else:
            with session_bus() as desktop:
                desktop.start_keyring()
                print(ten_secrets(pairs, env | desktop.environ), flush=True)
        subprocess.run([PYTHON, "-m", "tests.benchmarks.servers", str(max(3, pairs // 3))], env=env, check=True)


if __name__ == "__main__":
    main()
