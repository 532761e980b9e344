"""The typer application with all verbs. `--help` imports none of the code that carries them out."""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from acp_launch.cli import agents, config, edit, mcp, permission, processes, profiles, secrets, sessions
from acp_launch.cli.complete import completion
from acp_launch.cli.doctor import doctor
from acp_launch.cli.groups import WIDEST, AllCommands, Commands
from acp_launch.cli.help import help_
from acp_launch.cli.init import init
from acp_launch.cli.interop import export, import_
from acp_launch.cli.lock import lock
from acp_launch.cli.login import login, logout
from acp_launch.cli.logs import logs
from acp_launch.cli.run import Run
from acp_launch.cli.serve import Serve
from acp_launch.cli.trace import trace
from acp_launch.cli.trust import trust
from acp_launch.cli.up import attach, down, reload
from acp_launch.cli.up_request import Up
from acp_launch.cli.verb import Option, Verb, parameters
from acp_launch.cli.verb import Parameter as VerbParameter

app = typer.Typer(
    name="acp-launch",
    help="docker compose for coding agents: one YAML profile starts an agent, its directories and its MCP servers.",
    cls=AllCommands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
    epilog="Try it without an account: acp-launch run demo help",
)


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", "-V", help="Print the version and exit.", is_eager=True),
) -> None:
    """Handle `--version` here too, for `acp-launch --version run`."""
    if version:
        from acp_launch import __version__

        typer.echo(f"acp-launch {__version__}")
        raise typer.Exit


def _command(verb: Callable[..., Verb]) -> Callable[..., None]:
    """Make a typer command of a verb: a function with a parameter for each field."""
    known = parameters(verb)
    defaults = verb._field_defaults  # type: ignore[attr-defined]

    def carry_out(**given: Any) -> None:
        raise typer.Exit(verb(**{each.field: _value(each, given[each.field]) for each in known}).carry_out())

    carry_out.__doc__ = verb.__doc__
    asked = [_parameter(each, defaults.get(each.field, Parameter.empty)) for each in known]
    carry_out.__signature__ = Signature(asked)  # type: ignore[attr-defined]
    return carry_out


def _parameter(asked: VerbParameter, default: Any) -> Parameter:
    note = asked.note
    kind = str if isinstance(note, Option) and note.read else asked.kind
    if default is None or asked.is_many:
        kind, default = (list[kind] if asked.is_many else kind) | None, None  # type: ignore[valid-type]
    if isinstance(note, Option):
        hint: Any = Annotated[kind, typer.Option(*note.names.split(), metavar=note.metavar, help=note.help)]
    else:
        hint = Annotated[kind, typer.Argument(metavar=note.metavar, help=note.help)]
    return Parameter(asked.field, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _value(asked: VerbParameter, given: Any) -> Any:
    if asked.is_many:
        return tuple(map(asked.read, given or ()))
    if given is not None and isinstance(asked.note, Option) and asked.note.read:
        return asked.read(given)
    return given


PLAIN: Mapping[str, Callable[..., Verb]] = {"run": Run, "serve": Serve, "up": Up, **profiles.VERBS}
for name, verb in PLAIN.items():
    app.command(name)(_command(verb))
app.command()(init)
app.command()(edit.edit)
app.command("import")(import_)
app.command()(export)
app.command()(doctor)
app.command()(login)
app.command()(logout)
app.command()(trust)
app.command()(lock)
app.command()(logs)
app.command()(trace)
app.command()(down)
app.command()(reload)
app.command()(attach)
app.command()(processes.ps)
app.command()(processes.reap)
app.command()(completion)
app.command("help")(help_)
app.add_typer(config.app, name="config", cls=Commands)
app.add_typer(edit.app, name="profile", cls=Commands)
app.add_typer(secrets.app, name="secret")
app.add_typer(sessions.app, name="session", cls=Commands)
app.add_typer(mcp.app, name="mcp", cls=Commands)
app.add_typer(agents.app, name="agents", cls=Commands)
app.add_typer(permission.app, name="permission", cls=Commands)
