"""The verbs of `permission`: `test`, `list`, `forget` and `log`."""

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from acp_launch.app.planning import loaded_profile, require_plan, resolved_from
from acp_launch.app.spec import find_profile, load_settings
from acp_launch.cli.verb import Approve, Argument, Group, Json, OnlyProfile, Option, ProfileName
from acp_launch.console import permissions, stdout
from acp_launch.console.permissions import about
from acp_launch.console.stderr import harmless, say
from acp_launch.console.stdout import answer
from acp_launch.errors import UsageError
from acp_launch.plan.resolve import ADHOC
from acp_launch.profile.discover import SUFFIXES, here, project_of
from acp_launch.session.permission import audit
from acp_launch.session.permission.audit import AnswerStore, entries, files, load, rules_of
from acp_launch.session.permission.policy import consider, judge

app = Group("Permissions of agents: test, list, forget, log.")

Call = Annotated[str, Argument("CALL", "An ACP tool call as JSON; - reads stdin.")]
Verbose = Annotated[bool, Option("--verbose -v", "Show every rule that was checked, and why it did not match.")]
Numbers = Annotated[tuple[int, ...], Argument("[N]...", "Numbers that `permission list` shows.")]
All = Annotated[bool, Option("--all -a", "Forget every answer.")]
Last = Annotated[int | None, typer.Option("-n", min=0, metavar="LINES", help="Only the last entries.")]


@app.verb()
def test(
    profile: ProfileName,
    call: Call,
    approve: Annotated[Approve | None, Option("--approve", "As `run` takes it: all, reads or none.")] = None,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Show what a run would answer to a tool call, and by which rule."""
    asked, settings = _call(call), load_settings()
    policy = rules_of(require_plan(resolved_from(loaded_profile(profile, settings))), settings, approve)
    verdict, looked_at = judge(policy, asked), list(consider(policy, asked))
    text = permissions.verdict(verdict, looked_at, verbose=verbose)
    answer(permissions.verdict_json(verdict, looked_at), text, as_json=as_json)


@app.verb("list")
def list_(profile: ProfileName, as_json: Json = False) -> None:
    """List the remembered answers of a profile in this project."""
    answers = load(_shelf(profile))
    text = permissions.answer_lines(answers, now=time.time()) if answers else ""
    nothing = f'no answers are remembered for "{profile}" here'
    answer(permissions.answers_json(answers), text, nothing, as_json=as_json)


@app.verb()
def forget(profile: ProfileName, numbers: Numbers = (), everything: All = False) -> None:
    """Forget remembered answers: from now on you are asked again."""
    if everything == bool(numbers):
        raise UsageError("no answers are given", fix="give the numbers that permission list shows, or --all")
    for each in audit.forget(_shelf(profile), None if everything else set(numbers)):
        say(f"forgotten: always {each.answer} {harmless(about(each), keep='')}")


@app.verb()
def log(
    profile: OnlyProfile = None,
    as_json: Json = False,
    last: Last = None,
) -> None:
    """Show what agents asked, what was answered, and by which rule; the latest comes last."""
    state, name = load_settings().state, profile
    if name and name.endswith(SUFFIXES):  # its log has the name without
        name = Path(name).stem
    found, damaged = entries(files(state, name), last)
    for entry in found if as_json else ():
        stdout.put_json(entry)
    if found and not as_json:
        stdout.line(permissions.log_lines(found, with_profile=profile is None))
    if not found:
        of = f' of "{profile}"' if profile else ""
        say(f"no permission log{of} yet; it is kept in {state / 'log'}")
    if damaged:
        say(f"{damaged} damaged lines are not shown")


def _call(written: str) -> dict[str, Any]:
    """Read a tool call, also from the params of a `session/request_permission`, which users copy from a log."""
    text = sys.stdin.read() if written == "-" else written
    try:
        call = json.loads(text)
    except (ValueError, RecursionError) as fault:
        fix = """quote it for the shell: '{"kind": "execute", "rawInput": {"command": "rm -rf x"}}'"""
        raise UsageError(f"the tool call is not JSON: {fault}", fix=fix) from None
    if not isinstance(call, dict):
        raise UsageError("the tool call is not a JSON object", fix='write {"kind": ...}')
    return call["toolCall"] if isinstance(call.get("toolCall"), dict) else call


def _shelf(profile: str) -> "AnswerStore":
    """Return the remembered answers of a profile, which may have problems, or of a `run --agent`."""
    if profile.startswith(ADHOC):
        return AnswerStore(load_settings().state, str(project_of(here())), profile)
    found = find_profile(profile)
    return AnswerStore(load_settings().state, str(found.project), found.name, found.called)
