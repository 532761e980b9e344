"""
The command that helps when an agent wants a login or refuses, for this agent and this profile. Pure.

Useless advice is left out: no `acp-launch login` without a profile to name, no edit of a built-in profile, and no
second try if the agent has named a missing variable.
"""

from collections.abc import Container, Iterable, Sequence

from msgspec import Struct

from acp_launch.errors import LaunchError, ProtocolError
from acp_launch.problem import ours
from acp_launch.profile.agents import known
from acp_launch.protocol.acp import OWN_COMMAND, AuthMethod, Variable
from acp_launch.regex import regex
from acp_launch.secret.redact import redactor

# The variables in which agents keep a key; error codes look like that too.
_VARIABLE = regex(r"(?<![A-Za-z0-9_])(?:[A-Z][A-Z0-9]*_)+(?:KEY|TOKEN|SECRET)(?![A-Za-z0-9_])")
NO_REASON = ": Internal error ("  # in the message of an agent that gives no reason
_CODE = regex(r"(?:ERR|NO|BAD|MISSING|INVALID|EXPIRED|WRONG|UNKNOWN)_|API_KEY$|.*_(?:NO|BAD|INVALID|MISSING)_")


class Advice(Struct, frozen=True, kw_only=True):
    """The advice for one agent as configured.

    `profile` is how a command names its profile, empty if there is none; a profile that `is_built_in` cannot be
    changed. `command` is the agent's program, `has` names the variables it gets that are not empty.
    """

    profile: str = ""
    is_built_in: bool = False
    command: str = ""
    has: Container[str] = ()

    def login(self, method: AuthMethod | None = None) -> str:
        """Return the command that logs in."""
        return ours("login", self.profile, *([method.id] if method else [])) if self.profile else self.own

    @property
    def own(self) -> str:
        """Return how to log in to the agent without acp-launch."""
        agent = known(self.command)
        return f"{agent.login.rstrip(',')}, then run this again" if agent and agent.login else OWN_COMMAND

    def wanted(self, methods: Sequence[AuthMethod], *, could_show: bool) -> str:
        """Return the fix for an agent that wants a login first.

        With `could_show` there are no further `methods` that need a terminal: agents list them to clients that have
        one.
        """
        if methods:
            return self.login()
        if could_show or not self.profile:
            return self.own
        return f"in a terminal: {self.login()}; or {self.own}"

    def lacking(self, said: Iterable[str]) -> list[Variable]:
        """Return the variables that the agent's words name, and that it does not have."""
        names = dict.fromkeys(name for text in said for name in _VARIABLE.findall(text))
        return [Variable(name) for name in names if not _CODE.match(name) and name not in self.has]

    def giving(self, lacking: Sequence[Variable]) -> tuple[str, list[str]]:
        """Return how the agent gets these variables: a fix, and the lines above it."""
        if self.profile and not self.is_built_in:
            secrets = [ours("secret", "set", secret_name(each.name)) for each in lacking if each.secret]
            lines = [f"in the profile, under agent.env: {_line(each)}" for each in lacking]
            return "; ".join([*secrets, "and add the above to the profile"]), lines
        exported = " ".join(f"{each.name}=..." for each in lacking)
        return f"export {exported}, then run this again: the agent inherits it", list(self._for_good(lacking))

    def _for_good(self, lacking: Sequence[Variable]) -> Iterable[str]:
        """Yield how to set them permanently: in the user's own profile, because a built-in one cannot be changed."""
        if not self.profile:
            return
        mine = f"my-{self.profile}"
        yield f"to have it in every shell, create your own profile that extends {self.profile}:"
        yield f"    {ours('init', mine, '--extends', self.profile)}"
        for each in lacking:
            if each.secret:
                yield f"    {ours('secret', 'set', secret_name(each.name))}"
            yield f"    {ours('profile', 'set', mine, f'agent.env.{each.name}', _value(each))}"


def more(profile: str, server: str = "", *, has_log: bool) -> str:
    """Return where to learn more about a failed agent, or a failed `server`. `has_log`: it wrote to stderr."""
    if has_log:
        return ours("logs", profile, server)
    if server:
        return "it gives no reason; run its command by hand"
    return "it gives no other reason; try another version of it, or agent.inherit_env: minimal in a profile"


def seen(trace: str) -> str:
    """Return where the messages before a failure can be read. `trace` is the file of `--trace`; empty without it."""
    if trace:
        return f"{ours('trace', trace)} shows what was said"
    return "run it again with --trace FILE to see what was said"


def pointed(error: LaunchError, trace: str) -> None:
    """Point to the trace in the fix of an error by which a peer broke the protocol, or that gives no reason."""
    if (NO_REASON in error.message and not error.fix) or isinstance(error, ProtocolError):
        error.fix = "; ".join(filter(None, (error.fix, seen(trace))))


def referred(error: LaunchError, profile: str, trace: str, *, has_log: bool) -> None:
    """Refer to the log of an agent that gives no reason, unless there is better advice. `has_log` is as for `more`."""
    if NO_REASON in error.message and error.fix in ("", where := seen(trace)):
        error.fix = f"{more(profile, has_log=has_log)}; {where}"


def secret_name(variable: str) -> str:
    """Return the name of the secret for `variable`."""
    return variable.lower().replace("_", "-")


def _value(variable: Variable) -> str:
    return f"${{secret:{secret_name(variable.name)}}}" if variable.secret else "VALUE"


def _line(variable: Variable) -> str:
    value = _value(variable) if variable.secret else "…"
    label = f"  # {redactor.text(' '.join(variable.label.split()))}" if variable.label else ""
    return f"{variable.name}: {value}{label}"
