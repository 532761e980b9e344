"""What this client offers an agent, and therefore serves (ACP v1 "Client capabilities"). Nothing by halves (C-20)."""

from typing import Any

from msgspec import Struct


class Offers(Struct, frozen=True, kw_only=True):
    """Everything is off until somebody is there to serve it."""

    read_files: bool = False
    write_files: bool = False
    terminals: bool = False
    forms: bool = False
    urls: bool = False
    terminal_login: bool = False  # there is a terminal to run the agent's own login on (C-25)

    @property
    def methods(self) -> frozenset[str]:
        """The requests of the agent that are served; any other is answered with "method not found" (C-68)."""
        served: set[str] = set()
        if self.read_files:
            served.add("fs/read_text_file")
        if self.write_files:
            served.add("fs/write_text_file")
        if self.terminals:
            served |= {f"terminal/{verb}" for verb in ("create", "output", "release", "wait_for_exit", "kill")}
        if self.forms or self.urls:
            served.add("elicitation/create")
        return frozenset(served)

    def as_json(self) -> dict[str, Any]:
        """The `clientCapabilities` of `initialize`. An empty `elicitation` would offer nothing, so it is left out."""
        said: dict[str, Any] = {
            "fs": {"readTextFile": self.read_files, "writeTextFile": self.write_files},
            "terminal": self.terminals,
            "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
        }
        if elicitation := self._elicitation():
            said["elicitation"] = elicitation
        if self.terminal_login:
            said["auth"] = {"terminal": True}
            said["_meta"] = {"terminal-auth": True}  # what agents look for that are older than `auth.terminal`
        return said

    def _elicitation(self) -> dict[str, Any]:
        return {name: {} for name, is_offered in (("form", self.forms), ("url", self.urls)) if is_offered}
