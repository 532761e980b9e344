"""The command line: which verbs there are. `--help` imports nothing of what they do."""

import typer

from acp_launch.cli import edit, mcp, permission, processes, profiles, secrets, sessions
from acp_launch.cli.complete import completion
from acp_launch.cli.doctor import doctor
from acp_launch.cli.init import init
from acp_launch.cli.interop import export, import_
from acp_launch.cli.login import login, logout
from acp_launch.cli.logs import logs
from acp_launch.cli.run import run
from acp_launch.cli.trust import trust

app = typer.Typer(
    name="acp-launch",
    help="docker compose for coding agents: one YAML profile starts an agent, its directories and its MCP servers.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Try it without an account: acp-launch run demo help",
)


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", "-V", help="Print the version and exit.", is_eager=True),
) -> None:
    """Answered here too, for `acp-launch --version run`."""
    if version:
        from acp_launch import __version__

        typer.echo(f"acp-launch {__version__}")
        raise typer.Exit


app.command()(run)
app.command()(profiles.validate)
app.command()(profiles.plan)
app.command("list")(profiles.list_)
app.command()(profiles.show)
app.command()(profiles.schema)
app.command()(init)
app.command("import")(import_)
app.command()(export)
app.command()(doctor)
app.command()(login)
app.command()(logout)
app.command()(trust)
app.command()(logs)
app.command()(processes.ps)
app.command()(processes.reap)
app.command()(completion)
app.add_typer(edit.app, name="profile")
app.add_typer(secrets.app, name="secret")
app.add_typer(sessions.app, name="session")
app.add_typer(mcp.app, name="mcp")
app.add_typer(permission.app, name="permission")
