"""The ways to log in to an agent: as a table, and as questions to the user; and the agent's stderr in a login."""

import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext

from acp_launch.console.stderr import AgentStderr, harmless_line
from acp_launch.console.stdout import columns
from acp_launch.process.program import LocalProgram
from acp_launch.protocol.acp import AuthMethod
from acp_launch.secret.redact import redactor
from acp_launch.session.events import Choice, Person
from acp_launch.session.login import secret_name

KEYS = "123456789abcdefghijklmopqrstuvwxyz"  # one per method
NONE = Choice("n", "None of these")
YES, NO = Choice("y", "Yes, run it"), Choice("n", "No")


class LoginQuestions:
    """A `session.login.Adviser` that asks `person`, and shows the agent's stderr while it logs in."""

    def __init__(self, person: Person, aloud: AgentStderr | None = None) -> None:
        self._person = person
        self._aloud = aloud

    async def which(self, agent: str, methods: Sequence[AuthMethod]) -> AuthMethod | None:
        offered = dict(zip(KEYS, methods, strict=False))
        async with self._person.floor():
            self._person.say(harmless_line(f"The agent {agent} needs a login"), "heading")
            choices = [*(Choice(key, _sentence(method)) for key, method in offered.items()), NONE]
            key = await self._person.choose("Log in with:", choices)
        return offered.get(key or "")

    async def consents(self, method: AuthMethod, program: LocalProgram) -> bool:
        async with self._person.floor():
            say = self._person.say
            say(f'"{_clean(method.name)}" is a command that the agent chose, not your profile:', "warning")
            say(f"    {_clean(command_line(method, program))}", "quote")
            say(f"    in {_clean(str(program.cwd))}")
            return await self._person.choose("Run it?", [YES, NO]) == YES.key

    @asynccontextmanager
    async def waiting(self, method: AuthMethod) -> AsyncIterator[None]:
        async with self._person.floor():
            self._person.say(f'logging in with "{_clean(method.name)}"; Ctrl-C cancels', "dim")
        with self._aloud.on() if self._aloud else nullcontext():
            yield


def command_line(method: AuthMethod, program: LocalProgram) -> str:
    """Return the exact command in shell syntax. Variables that the method does not set are inherited."""
    return " ".join(
        [*(f"{name}={shlex.quote(text)}" for name, text in method.command_env.items()), shlex.join(program.argv)]
    )


def table(methods: Sequence[AuthMethod]) -> str:
    """Return a table for users: the METHOD's id, its type, name, description and needs."""
    rows = [("METHOD", "TYPE", "NAME", ""), *((method.id, _type(method), *_about(method)) for method in methods)]
    return "\n".join(columns([[redactor.text(cell) for cell in row] for row in rows]))


def as_json(agent: str, methods: Sequence[AuthMethod]) -> object:
    return redactor.tree({"agent": agent, "methods": list(map(_members, methods))})


def _type(method: AuthMethod) -> str:
    if method.command:
        return "terminal-auth"
    return "env_var" if method.variables else method.type


def _about(method: AuthMethod) -> tuple[str, str]:
    return " ".join(method.name.split()), " ".join([*method.description.split(), *_needs(method)])


def _needs(method: AuthMethod) -> list[str]:
    names = ", ".join(variable.name for variable in method.variables if not variable.optional)
    return [f"(reads {names})"] if names else []


def _sentence(method: AuthMethod) -> str:
    name, about = map(_clean, _about(method))
    return f"{name}: {about}" if about else name


def _members(method: AuthMethod) -> dict[str, object]:
    """Describe a method without its empty members; `type` says how `login` handles it."""
    members = {
        "id": method.id,
        "name": method.name,
        "type": _type(method),
        "description": method.description,
        "args": list(method.args),
        "env": dict(method.env),
        "command": list(method.command),
        "variables": [
            {"name": each.name, "secret": secret_name(each.name) if each.secret else None, "optional": each.optional}
            for each in method.variables
        ],
        "link": method.link,
    }
    return {name: value for name, value in members.items() if value}


def _clean(text: str) -> str:
    return harmless_line(redactor.text(text))
