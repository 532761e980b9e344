"""The typer application with all verbs. `--help` imports no verb."""

import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer
from typer import _completion_classes
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from acp_launch import __version__
from acp_launch.cli.verb import (
    HEADINGS,
    MORE,
    REQUIRED,
    VERBS,
    Argument,
    Group,
    Option,
    Verb,
    carry_out,
    load,
    parameters,
)
from acp_launch.cli.verb import Parameter as VerbParameter

MAX_HELP_COLUMNS = 120  # longer lines are hard to read
COMPLETION_TIMEOUT = 2.0  # of a press of the tab key; the user sees nothing until then


class Unconverted:
    """A command that leaves values as they are for a press of the tab key: typer's conversion imports pydantic."""

    get_params: Callable[[Any], list[Any]]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            for each in self.get_params(ctx):
                each.process_value = lambda ctx, value: value
        return super().parse_args(ctx, args)  # type: ignore[misc, no-any-return]


class VerbCommand(Unconverted, TyperCommand):
    """A verb. Its `--help` names the arguments as they are declared; typer's versions decorate them differently."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(str(each.metavar) for each in self.params if each.param_type_name == "argument")]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        arguments, options = [], []
        for each in self.get_params(ctx):
            if row := each.get_help_record(ctx):
                if each.param_type_name == "argument":
                    arguments.append((each.metavar, row[1]))
                else:
                    options.append(row)
        for heading, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class Commands(Unconverted, TyperGroup):
    """A group of commands. Its `--help` wraps a long sentence where typer would cut it."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = self.rows(ctx)
        width = max(map(len, rows))
        for heading, names in self.headings(rows):
            with formatter.section(heading):
                if heading == MORE:
                    formatter.write_text(f"{', '.join(names)}: acp-launch help commands")
                else:
                    formatter.write_dl([(f"{name:{width}}", rows[name]) for name in names])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a command; for a press of the tab key, it offers our candidates."""
        command = super().get_command(ctx, cmd_name)
        if command and ctx.resilient_parsing:
            from acp_launch.cli.completion import offer

            offer(command, f"{ctx.command_path} {cmd_name}".partition(" ")[2])
        return command

    def rows(self, ctx: Any) -> Mapping[str, str]:
        """Return the first sentence of the help of each command."""
        helps = {name: str(self.get_command(ctx, name).help or "") for name in self.list_commands(ctx)}
        return {name: first_sentence(text) for name, text in helps.items()}

    def headings(self, names: Collection[str]) -> Iterator[tuple[str, Collection[str]]]:
        """Yield each heading with the names of its commands."""
        yield "Commands", names


def first_sentence(text: str) -> str:
    first, stop, _ = text.partition("\n")[0].partition(". ")
    return first + stop.strip()


class AllCommands(Commands):
    """The commands of acp-launch, made of the verbs when they are asked for."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = dict.fromkeys(VERBS)  # typer suggests the nearest of these names

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in VERBS and self.commands[cmd_name] is None:
            verb = load(cmd_name)
            alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
            if isinstance(verb, Group):
                alone.add_typer(_make_group(verb), name=cmd_name)
            else:
                alone.command(cmd_name, cls=VerbCommand)(_command(verb))
            self.commands[cmd_name] = get_group(alone).commands[cmd_name]
        return super().get_command(ctx, cmd_name)

    def rows(self, ctx: Any) -> Mapping[str, str]:
        """Return what the table of verbs says: their modules are not imported for it."""
        return {name: sentence for verbs in HEADINGS.values() for name, (_, sentence) in verbs.items()}

    def headings(self, names: Collection[str]) -> Iterator[tuple[str, Collection[str]]]:
        yield from HEADINGS.items()


def _make_group(group: Group) -> typer.Typer:
    made = typer.Typer(cls=Commands, help=group.about, no_args_is_help=True)
    if group.choice:
        made.callback(invoke_without_command=True, no_args_is_help=False)(_command(group.choice))
    for name, (verb, given) in group.verbs.items():
        made.command(name, cls=VerbCommand, **given)(_command(verb))
    return made


app = typer.Typer(
    name="acp-launch",
    help="docker compose for coding agents: one YAML profile starts an agent, its directories and its MCP servers.",
    cls=AllCommands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": MAX_HELP_COLUMNS},
    epilog="Try it without an account: acp-launch run demo help",
)


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", "-V", help="Print the version and exit.", is_eager=True),
) -> None:
    """Handle `--version` here too, for `acp-launch --version run`."""
    if version:
        typer.echo(f"acp-launch {__version__}")
        raise typer.Exit


def _command(verb: Verb) -> Callable[..., None]:
    known = parameters(verb)

    def command(**given: Any) -> None:
        if code := carry_out(verb, {each.field: _value(each, given[each.field]) for each in known}):
            raise typer.Exit(code)

    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    command.__signature__ = Signature(list(map(_parameter, known)))  # type: ignore[attr-defined]
    return command


def _parameter(asked: VerbParameter) -> Parameter:
    note, hint = asked.note, asked.hint
    default = Parameter.empty if asked.default is REQUIRED else asked.default
    if isinstance(note, Option | Argument):
        kind: Any = str if isinstance(note, Option) and note.read else asked.kind
        kind = list[kind] if asked.is_many else kind
        if default in (None, ()):
            kind, default = kind | None, None
        if isinstance(note, Option):
            hint = Annotated[kind, typer.Option(*note.names.split(), metavar=note.metavar, help=note.help)]
        else:
            hint = Annotated[kind, typer.Argument(metavar=note.metavar, help=note.help)]
    return Parameter(asked.field, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _value(asked: VerbParameter, given: Any) -> Any:
    if asked.is_many:
        return tuple(map(asked.read, given or ()))
    if given is not None and isinstance(asked.note, Option) and asked.note.read:
        return asked.read(given)
    return given


def complete() -> None:
    """Answer a press of the tab key on stdout, as typer's scripts ask; give up where a disk does not answer."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, COMPLETION_TIMEOUT)
    _completion_classes.completion_init()
    # Theirs imports rich, to which brackets are markup.
    _completion_classes._sanitize_help_text = str  # type: ignore[assignment]
    app(prog_name="acp-launch")
