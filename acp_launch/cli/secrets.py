"""
The verbs of `secret`: `set`, `list`, `check`, `rm`, `rename` and `copy-to-env`. There is no `get`.

A value comes from a hidden prompt, from stdin or from a variable, but never from the command line, where `ps` and the
shell's history would show it.
"""

import os
import re
from collections.abc import Sequence
from typing import Annotated

import typer

from acp_launch.app import execute, secretvalue
from acp_launch.app.secretvalue import VARIABLE, check_name, uses
from acp_launch.app.spec import load_settings
from acp_launch.app.stores import Vault, outcomes
from acp_launch.cli.verb import Argument, Group, Json, Option
from acp_launch.console import secrets
from acp_launch.console.stderr import DIM, YELLOW, can_ask_user, say, tell
from acp_launch.errors import MachineError, SecretError, UsageError
from acp_launch.plan.model import next_command
from acp_launch.secret import value
from acp_launch.secret.value import variable

app = Group("Secrets: set, list, check, rm, rename, copy-to-env.")

Name = Annotated[str, Argument("NAME", "The secret's name.")]


@app.verb("set", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def set_(
    context: typer.Context,
    name: Name,
    from_env: Annotated[str | None, Option("--from-env", "Read the value from a variable.", "VAR")] = None,
) -> None:
    """Store a secret. The value is read from a hidden prompt or from stdin."""
    secretvalue.refuse_words(context.args)
    secretvalue.check_name(name)
    secretvalue.put(Vault(load_settings(), may_offer=True), name, lambda: secretvalue.read_value(name, from_env))


@app.verb("list")
def list_(as_json: Json = False) -> int:
    """List the secrets, when each was set, and which profiles use it. Values are never shown."""
    vault = _vault()
    kept, remark, failed = vault.names()
    used = uses(vault.settings)
    given = [name for name in used.names if os.environ.get(variable(name))]
    rows = [secrets.Listed(name, variable(name), None, used.of(name)) for name in given]
    rows += [secrets.Listed(name, vault.store.label, kept[name], used.of(name)) for name in sorted(kept)]
    secrets.show_list(rows, remark, as_json=as_json)
    if remark or not rows:
        tell(f"{remark or 'no secrets yet; to store one: acp-launch secret set NAME'}", style=DIM)
    return MachineError.exit_code if failed else 0


@app.verb()
def check(
    profiles: Annotated[tuple[str, ...], Argument("[PROFILE]...", "Names or paths; by default all profiles.")] = (),
    as_json: Json = False,
) -> int:
    """Check that the secrets of profiles can be found, and where."""
    vault = _vault()
    used = uses(vault.settings, profiles)
    answers = outcomes(used.names, vault.settings)
    vault.index.learn(answers, vault.store.label)
    rows = [secrets.Checked(name, answers[name], used.of(name)) for name in used.names]
    if not rows and not as_json:
        tell("no profile here needs a secret", style=DIM)
        return 0
    secrets.show_check(rows, used.needs, as_json=as_json)
    return MachineError.exit_code if any(outcome.state != "found" for outcome in answers.values()) else 0


@app.verb()
def rm(names: Annotated[tuple[str, ...], Argument("NAME...", "The secrets' names.")]) -> None:
    """Remove secrets from the store."""
    vault = _vault()
    wanted = tuple(dict.fromkeys(map(check_name, names)))
    vault.require(*wanted)
    for name in wanted:
        _remove(vault, name)
        say(f"{name}: removed from the {vault.store.label}")
    _mention_uses(vault, wanted, "set it again or remove the reference")


@app.verb()
def rename(old: Name, new: Annotated[str, Argument("NEW", "Its new name.")]) -> None:
    """Rename a secret, and list the references in profiles that you must change."""
    if check_name(old) == check_name(new):
        raise UsageError("the two names are the same")
    vault = _vault()
    failed = f'cannot rename secret "{old}"'
    vault.do(failed, vault.store.names, writing=new)  # a store that only reads says so first
    secret = vault.read(old)
    if vault.states(new)[new].state != "missing":
        raise SecretError(
            f'secret "{new}" already exists; nothing was changed',
            fix=f"choose another name, or acp-launch secret rm {new}",
        )
    vault.write(new, secret, failed)
    _remove(vault, old)
    say(f"{old}: renamed to {new} in the {vault.store.label}")
    _mention_uses(vault, (old,), f"write ${{secret:{new}}}")


@app.verb("copy-to-env")
def copy_to_env(
    name: Name,
    command: Annotated[tuple[str, ...], Argument("-- COMMAND...", "The command to run.")],
    variable: Annotated[str | None, Option("--as", "The variable; by default the name in upper case.", "VAR")] = None,
) -> int:
    """Run a command with a secret in its environment: github → GITHUB."""
    into = variable or value.variable(name).removeprefix(value.PREFIX)
    if not re.fullmatch(VARIABLE, into):
        fix = f"acp-launch secret copy-to-env --as VAR {name} -- ..."
        raise UsageError(f'"{into}" is not a variable name', fix=fix)
    outcome = outcomes([check_name(name)], load_settings())[name]
    if outcome.secret is None:
        reason = outcome.reason or f"not found in the {outcome.source}"
        fix = next_command(name, outcome, has_terminal=can_ask_user())
        raise SecretError(f'cannot read secret "{name}": {reason}', fix=fix)
    return execute.replaced_by(command, {into: outcome.secret}, os.environ)


def _remove(vault: "Vault", name: str) -> None:
    vault.do(f'cannot remove secret "{name}"', lambda: vault.store.remove(name))
    vault.index.drop(name)


def _mention_uses(vault: "Vault", names: Sequence[str], what: str) -> None:
    """List the references in profiles, which do not change by themselves."""
    for profile, need in uses(vault.settings).all:
        if need.name in names:
            say(
                f"{need.origin}: {need.origin.path}: {profile} still needs ${{secret:{need.name}}}; {what}",
                style=YELLOW,
            )


def _vault() -> "Vault":
    return Vault(load_settings())
