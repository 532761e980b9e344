"""A profile's texts in the words of one tool, with a note about each that has none there. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from acp_launch.interop.outward import References, Surroundings, only_variable, outward
from acp_launch.interop.places import Tool
from acp_launch.interop.variables import Untranslatable
from acp_launch.profile.model import ServerTimeouts, StdioServer

_OURS = ("restart", "roots", "bridge", "inherit_env")  # of a server: nobody else does that
_DEFAULT = StdioServer(command="")  # type: ignore[arg-type]


class Saying(Struct):
    tool: Tool
    around: Surroundings
    references: References
    notes: list[str]

    def text(self, text: str, key: str = "", called: str = "") -> str:
        """
        Raises:
            Untranslatable: the tool cannot say part of it.
        """
        return outward(text, self.tool, self.around, self.references, key=key, called=called)

    def path(self, text: str, *, is_program: bool) -> str:
        """What a profile says relative to its project; of a program only what is no name to look up."""
        has_folder = "/" in text or "\\" in text
        if (is_program and not has_folder) or text.startswith(("/", "~", "\\", "$")) or re.match("[A-Za-z]:", text):
            return self.text(text)
        return self.text("${project}/" + text.removeprefix("./"))

    def texts(self, owner: str, key: str, written: Mapping[str, str]) -> dict[str, str]:
        """Variables or headers; those that cannot be said are left out."""
        found = {}
        for name, text in written.items():
            try:
                found[name] = self.text(text, key, name if key == "env" else "")
            except Untranslatable as why:
                self.notes.append(f"{owner}: {key}.{name} is left out: it {why}")
        return found

    def named(self, owner: str, written: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """Variables for a tool that passes on those it is told the names of: literals, and names."""
        literals: dict[str, str] = {}
        names = []
        for name, text in written.items():
            variable = only_variable(text, self.references, called=name)
            if variable == name:
                names.append(name)
            elif variable is not None:
                self.notes.append(f"{owner}: env.{name} is left out: {self.tool.title} cannot rename {variable}")
            else:
                literals |= self.texts(owner, "env", {name: text})
        return literals, names

    def mention(self, name: str, server: StdioServer) -> None:
        """What only acp-launch does for a server."""
        lost = [key for key in _OURS if getattr(server, key) != getattr(_DEFAULT, key)]
        if lost:
            self.notes.append(f"{name}: {', '.join(lost)} is left out: only acp-launch does that")

    def without_cwd(self, name: str, server: StdioServer) -> None:
        if server.cwd:
            self.notes.append(f"{name}: cwd is left out: {self.tool.title} knows none")

    def seconds(self, name: str, server: StdioServer, which: str) -> float | None:
        """A time-out that is not ours by default; None otherwise."""
        found = getattr(server.timeouts, which)
        return None if found is None or found == getattr(ServerTimeouts(), which) else float(found)

    def tools(self, name: str, server: StdioServer, which: str) -> list[str] | None:
        """Tools by their names; None for no restriction. Where there is one that cannot be said, that is noted."""
        globs: Sequence[str] = getattr(server.tools, which)
        if list(globs) == (["*"] if which == "allow" else []):
            return None
        plain = [re.sub(r"\[([*?\[])\]", r"\1", glob) for glob in globs]
        if any(re.search(r"[*?\[]", re.sub(r"\[[*?\[]\]", "", glob)) for glob in globs):
            self.notes.append(f"{name}: tools.{which} is left out: {self.tool.title} knows no patterns")
            return None
        return plain

    def unrestricted(self, name: str, server: StdioServer) -> None:
        """A tool that cannot keep any tools from anybody."""
        if server.tools != _DEFAULT.tools:
            self.notes.append(f"{name}: tools is left out: {self.tool.title} shows all of them")


def without_nothing(**members: Any) -> dict[str, Any]:
    """Members that have something to say."""
    return {key: value for key, value in members.items() if value not in (None, "", [], {})}
