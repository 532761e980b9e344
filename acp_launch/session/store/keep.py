"""
What a run leaves in the store: written when its session is open, so that `kill -9` loses no session.

Names and titles are for people, and what agents and prompts say in them is redacted. The session's id is not: it must
be the agent's own, and an agent that puts a secret into it keeps it itself.
"""

import time

from msgspec.structs import replace

from acp_launch.plan.model import LaunchPlan
from acp_launch.protocol.acp import Negotiated
from acp_launch.secret.redact import redactor
from acp_launch.session.observer import SessionReady
from acp_launch.session.store.registry import Key, Record, Registry

TITLE = 80  # characters of the first prompt that stand in for a title


class Keeper:
    """Keeps one session of `plan` in the store."""

    def __init__(self, registry: Registry, plan: LaunchPlan, record: Record | None, prompt: str) -> None:
        """`record` is the session that is continued; `prompt` names a new one until the agent does."""
        self._registry = registry
        self._plan = plan
        self._record = record
        self._prompt = prompt
        self._key: Key | None = None

    def opened(self, ready: SessionReady, agent: Negotiated) -> None:
        now = time.time()
        record = self._record or self._fresh(ready, now)
        record = replace(
            record,
            agent_name=redactor.text(agent.name),
            agent_version=redactor.text(agent.agent_version),
            last_used=now,
            session_id=ready.session_id,
        )
        self._key = record.key
        self._registry.save(record)

    def ended(self, title: str) -> None:
        """`title` as the agent names the session; empty keeps the one there is."""
        if self._key is not None:
            self._registry.touch(self._key, time.time(), redactor.text(title) or None)

    def _fresh(self, ready: SessionReady, now: float) -> Record:
        return Record(
            project=str(self._plan.project),
            profile=self._plan.profile,
            name=ready.name,
            session_id=ready.session_id,
            agent_name="",
            agent_version="",
            agent_command=str(self._plan.agent.command),
            cwd=str(self._plan.cwd),
            title=" ".join(redactor.text(self._prompt).split())[:TITLE],
            created=now,
            last_used=now,
        )


def drift(record: Record, agent: Negotiated) -> str:
    """What changed about the agent since the session was last used; empty when nothing did."""
    if agent.name and record.agent_name and agent.name != record.agent_name:
        return f'the session "{record.name}" was made with {record.agent_name}, and this is {agent.name}'
    if agent.agent_version != record.agent_version:
        now, before = agent.agent_version or "unknown", record.agent_version or "unknown"
        return f"{agent.name or 'the agent'} is now version {now}, it was {before}"
    return ""
