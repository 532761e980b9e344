"""
The format of a batch, the frozen batch (`batch.json`), and the record of an attempt (`result.json`). Pure.

A profile's name in a batch is as it was written: a name, or a path from the directory of the file.
"""

from collections.abc import Mapping, Sequence
from sys import float_info
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from acp_launch.document.nodes import number_text
from acp_launch.document.scalars import Duration
from acp_launch.document.shape import Shape
from acp_launch.profile.values import LISTED, Scalar, Truth

VERSION = 1
SCHEMA = 1  # of batch.json and result.json
Outcome = Literal[
    "passed",
    "failed",  # by the check
    "empty",  # no check, and an answer of white space
    "refused",
    "limited",  # by max_tokens, max_turn_requests, the context or a reason of the agent's own
    "unknown",  # no check, and an agent that ends failed turns well did not say that this one is none
    "rate_limited",
    "denied",
    "agent_died",  # every other end with 1, 4 or 5
    "timed_out",
    "cancelled",
    "setup_failed",  # before the agent was asked: 2, 3, 6, 7, 8
]
UNCOUNTED = ("rate_limited", "cancelled")  # outcomes of attempts that do not use up `retry.attempts`


def _write_value(value: Any) -> Any:
    """Write a value as text: a number as it was written."""
    if isinstance(value, bool):
        return str(value).lower()
    return number_text(value) if isinstance(value, int | float) else value


_TEXT = Annotated[str, Meta(pattern=r"^(?=[^\0]*[^\0\s])[^\0]*\Z")]
_NO_NUL = Annotated[str, Meta(pattern=r"^[^\0]*\Z")]
_FROM_1 = Annotated[int, Meta(ge=1)]
_POSITIVE = Annotated[float, Meta(gt=0, le=float_info.max)]
_IS_TEXT = Scalar(_TEXT, "text that is not empty and holds no NUL", "write it in quotes, or remove it")
Text = Annotated[_TEXT, _IS_TEXT]
OptionalText = Annotated[_TEXT | None, replace(_IS_TEXT, kind=_TEXT | None)]
Value = Annotated[
    _NO_NUL,
    Scalar(_NO_NUL | bool | int | float, "text, a number, true or false", "write one value", _write_value),
]
Natural = Annotated[_FROM_1, Scalar(_FROM_1, "a whole number from 1 up", "write a number such as 4")]
Amount = Annotated[_POSITIVE, Scalar(_POSITIVE, "a positive amount", "write a number such as 50")]


class BatchTask(Shape, frozen=True, kw_only=True):
    id: str
    prompt: OptionalText = None
    repo: OptionalText = None
    ref: OptionalText = None
    vars: Mapping[str, Value] = {}


class SetupCommand(Shape, frozen=True, kw_only=True):
    command: tuple[Text, ...]
    timeout: Duration = Duration(600)


class Isolation(Shape, frozen=True, kw_only=True):
    kind: Literal["none", "worktree", "clone"] = "none"
    ref: Text = "HEAD"
    copy: tuple[Text, ...] = ()  # paths of the checkout
    setup: SetupCommand | None = None
    keep: Literal["failed", "always", "never"] = "failed"
    unsafe: Truth = False  # retries without isolation


class CheckCommand(Shape, frozen=True, kw_only=True):
    command: tuple[Text, ...]
    timeout: Duration = Duration(600)
    outside: Truth = False  # of the place of a confined agent


class Account(Shape, frozen=True, kw_only=True):
    profiles: tuple[str, ...]
    jobs: Natural | None = None
    start_every: Duration | None = None


class Limits(Shape, frozen=True, kw_only=True):
    jobs: Natural | None = None  # None: as many as processors
    accounts: Mapping[str, Account] = {}
    timeout: Duration | None = None  # of one run
    cost: Mapping[str, Amount] = {}  # by currency
    failures: Natural | None = None


class Backoff(Shape, frozen=True, kw_only=True):
    initial: Duration = Duration(30)
    max: Duration = Duration(900)


class Retry(Shape, frozen=True, kw_only=True):
    attempts: Natural = 3
    on: tuple[Literal["rate_limited", "agent_died", "timed_out", "failed", "empty", "limited", "unknown"], ...] = (
        "rate_limited",
        "agent_died",
        "timed_out",
    )
    backoff: Backoff = Backoff()
    session: Literal["new", "continue"] = "new"


class BatchFile(Shape, frozen=True, kw_only=True):
    version: int
    profiles: Annotated[tuple[Text, ...], LISTED]
    matrix: Mapping[str, tuple[Value, ...]] = {}
    exclude: tuple[Mapping[str, Value], ...] = ()
    tasks: str | tuple[BatchTask, ...]
    prompt: OptionalText = None
    samples: Natural = 1
    isolation: Isolation = Isolation()
    check: CheckCommand | None = None
    approve: Literal["all", "reads", "none"] | None = None
    limits: Limits = Limits()
    retry: Retry | None = None


class FrozenProfile(Struct, frozen=True, kw_only=True):
    """A profile of a frozen batch. `digest` covers all its files, as they are merged."""

    called: str
    file: str
    digest: str


class Item(Struct, frozen=True, kw_only=True):
    """A task × profile × matrix row × sample. `index` counts from 0.

    `repo` is the directory whose files the agent works on: the original checkout. `base_commit` is null without git.
    """

    id: str
    index: int
    task: str
    profile: str
    matrix: dict[str, str] = {}
    sample: int = 1
    prompt: str = ""
    repo: str
    base_commit: str | None = None


class Batch(Struct, frozen=True, kw_only=True):
    """`batch.json`. `directory` holds `file`: profiles are found from there. `created` is UTC, as in events."""

    schema: int = SCHEMA
    name: str
    created: str
    acp_launch: str
    file: str
    directory: str
    profiles: dict[str, FrozenProfile]
    items: tuple[Item, ...]
    isolation: Isolation
    check: CheckCommand | None
    approve: Literal["all", "reads", "none"] | None
    limits: Limits
    retry: Retry | None


class Started(Struct, frozen=True, kw_only=True):
    """`started.json` of an attempt that was begun."""

    pid: int
    host: str
    started: str


class AgentFacts(Struct, frozen=True, kw_only=True):
    name: str = ""
    version: str = ""


class ErrorFacts(Struct, frozen=True, kw_only=True):
    """The `error` event of the run, or what stopped an attempt before it: `code` and `data` are the agent's."""

    exit_code: int
    message: str
    fix: str = ""
    code: int | None = None
    data: Any = None


class Cost(Struct, frozen=True, kw_only=True):
    amount: float
    currency: str


class Patch(Struct, frozen=True, kw_only=True):
    files: int
    insertions: int
    deletions: int
    sha256: str
    path: str = "patch.diff"
    secrets: tuple[str, ...] = ()  # names of those that it holds; it is true to the tree, so they are not masked

    @property
    def warning(self) -> str:
        """Warn of secrets in it, since it must not be published; empty without."""
        return f"{self.path} holds the secret {', '.join(self.secrets)}, unmasked" if self.secrets else ""


class CheckResult(Struct, frozen=True, kw_only=True):
    """The check's end; `exit_code` is null after its time-out."""

    command: tuple[str, ...]
    exit_code: int | None
    seconds: float


class ServerFacts(Struct, frozen=True, kw_only=True):
    name: str
    restarts: int


class Verdict(Struct, frozen=True, kw_only=True):
    """What decides how an item goes on: a few members of a record.

    `cost` is what this attempt added, `session_cost` what its session had cost until then; both are null if the agent
    told none. `resets` is when a rate limit ends, in Unix seconds, if the agent said so.
    """

    schema: int = SCHEMA
    item: str
    attempt: int
    outcome: Outcome
    exit_code: int
    started: str
    ended: str
    seconds: float
    cost: Cost | None = None
    session_cost: Cost | None = None
    resets: float | None = None
    patch: Patch | None = None


class Record(Verdict, frozen=True, kw_only=True):
    """`result.json` of an attempt, on one line: also a line of `results.jsonl`.

    Times are UTC as in events. `answer` is the first 64 KiB of it, `tools` counts tool calls, `patch_error` says
    why there is no patch, `worktree` is a directory that was kept, `files` are in the attempt's directory.
    """

    batch: str
    task: str
    profile: str
    profile_digest: str
    matrix: dict[str, str]
    sample: int
    agent: AgentFacts = AgentFacts()
    model: str | None = None
    mode: str | None = None
    acp_launch: str
    host: str
    stop_reason: str | None = None
    error: ErrorFacts | None = None
    denied: str | None = None
    usage: dict[str, int] | None = None
    tools: int = 0
    answer: str = ""
    repo: str
    base_commit: str | None = None
    patch_error: str | None = None
    check: CheckResult | None = None
    servers: tuple[ServerFacts, ...] = ()
    session: dict[str, str] | None = None  # name, id
    worktree: str | None = None
    files: tuple[str, ...] = ()  # of the attempt's directory


class Standing(NamedTuple):
    """What its records say of an item.

    `last` is the latest attempt. `attempt` is the number of the one that is due, 0 if the item is done.
    """

    last: Verdict | None
    attempt: int
    tries: int  # attempts that used up `retry.attempts` since the item was last opened again
    limited: int  # rate limits in a row, the latest included

    @property
    def is_done(self) -> bool:
        return self.attempt == 0


def judge(records: Sequence[Verdict], retry: Retry | None, opened_after: int = 0) -> Standing:
    """Judge an item by its records in order; it was opened again after attempt `opened_after`."""
    tries = limited = 0
    for record in records:
        if record.attempt <= opened_after:
            continue
        tries += record.outcome not in UNCOUNTED
        limited = limited + 1 if record.outcome == "rate_limited" else 0 if record.outcome != "cancelled" else limited
    last = records[-1] if records else None
    due = last.attempt + 1 if last else 1
    if last is None or last.attempt <= opened_after or last.outcome == "cancelled":
        return Standing(last, due, tries, limited)
    if retry is None or last.outcome not in retry.on or max(tries, limited) >= retry.attempts:
        return Standing(last, 0, tries, limited)
    return Standing(last, due, tries, limited)
