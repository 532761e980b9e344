"""
What helps when an agent wants a login, or refuses: the command for this agent and this profile. Pure.

Nothing is advised that leads nowhere: no `acp-launch login` where there is no profile to name, no edit of a profile
that came with acp-launch, and no second try where the agent has said which of its variables is missing.
"""

import re
from collections.abc import Container, Iterable, Sequence

from msgspec import Struct

from acp_launch.problem import ours
from acp_launch.profile.agents import known
from acp_launch.protocol.acp import OWN_COMMAND, AuthMethod, Variable
from acp_launch.secret.redact import redactor

# What agents keep a key in; error codes look like that too.
_VARIABLE = re.compile(r"(?<![A-Za-z0-9_])(?:[A-Z][A-Z0-9]*_)+(?:KEY|TOKEN|SECRET)(?![A-Za-z0-9_])")
_CODE = re.compile(r"(?:ERR|NO|BAD|MISSING|INVALID|EXPIRED|WRONG|UNKNOWN)_|API_KEY$|.*_(?:NO|BAD|INVALID|MISSING)_")


class Advice(Struct, frozen=True, kw_only=True):
    """For one agent as it is configured.

    `profile` is how a command names its profile, empty where there is none; one that `is_built_in` cannot be changed.
    `command` is the agent's program, `has` names the variables it gets that hold anything.
    """

    profile: str = ""
    is_built_in: bool = False
    command: str = ""
    has: Container[str] = ()

    def login(self, method: AuthMethod | None = None) -> str:
        """The command that logs in here."""
        return ours("login", self.profile, *([method.id] if method else [])) if self.profile else self.own

    @property
    def own(self) -> str:
        """How the agent is logged in to without us."""
        agent = known(self.command)
        return f"{agent.login.rstrip(',')}, then run this again" if agent and agent.login else OWN_COMMAND

    def wanted(self, methods: Sequence[AuthMethod], *, could_show: bool) -> str:
        """For an agent that wants a login first. With `could_show` there are no further `methods` that need a terminal:
        agents list them to clients that have one."""
        if methods:
            return self.login()
        if could_show or not self.profile:
            return self.own
        return f"in a terminal: {self.login()}; or {self.own}"

    def lacking(self, said: Iterable[str]) -> list[Variable]:
        """The variables that the agent's words name, and that it does not have."""
        names = dict.fromkeys(name for text in said for name in _VARIABLE.findall(text))
        return [Variable(name) for name in names if not _CODE.match(name) and name not in self.has]

    def giving(self, lacking: Sequence[Variable]) -> tuple[str, list[str]]:
        """How the agent gets these variables: a fix, and the lines above it."""
        if self.profile and not self.is_built_in:
            secrets = [ours("secret", "set", secret_name(each.name)) for each in lacking if each.secret]
            lines = [f"in the profile, under agent.env: {_line(each)}" for each in lacking]
            return "; ".join([*secrets, "and add the above to the profile"]), lines
        exported = " ".join(f"{each.name}=..." for each in lacking)
        return f"export {exported}, then run this again: the agent inherits it", list(self._for_good(lacking))

    def _for_good(self, lacking: Sequence[Variable]) -> Iterable[str]:
        """A profile of the user's own that has them, in the place of the one that cannot be changed."""
        if not self.profile:
            return
        mine = f"my-{self.profile}"
        yield f"to have it in every shell, make a profile of your own that extends {self.profile}:"
        yield f"    {ours('init', mine, '--extends', self.profile)}"
        for each in lacking:
            if each.secret:
                yield f"    {ours('secret', 'set', secret_name(each.name))}"
            yield f"    {ours('profile', 'set', mine, f'agent.env.{each.name}', _value(each))}"


def more(profile: str, server: str = "", *, has_log: bool) -> str:
    """Where more can be learned of what an agent, or with its name a server, did. `has_log`: it wrote to stderr."""
    if has_log:
        return ours("logs", profile, server)
    if server:
        return "it gives no reason; run its command by hand"
    return "it gives no other reason; try another version of it, or agent.inherit_env: minimal in a profile"


def secret_name(variable: str) -> str:
    """What we would call the secret in `variable`."""
    return variable.lower().replace("_", "-")


def _value(variable: Variable) -> str:
    return f"${{secret:{secret_name(variable.name)}}}" if variable.secret else "VALUE"


def _line(variable: Variable) -> str:
    value = _value(variable) if variable.secret else "…"
    label = f"  # {redactor.text(' '.join(variable.label.split()))}" if variable.label else ""
    return f"{variable.name}: {value}{label}"
