"""
Editors that start agents: the command by which one starts a profile, and the text for editors without a file to change.

The command is recognised in an editor's file, too, so that `import` does not take acp-launch for another agent. Pure.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PureWindowsPath
from typing import Any

VERB = "serve"
_OURS = ("acp-launch", "acp_launch")  # the program, and the module of `python -m`
_TAKES_VALUE = ("--cwd", "--login", "--trace")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n"}


def serving(launcher: Sequence[str], profile: str) -> list[str]:
    """Return the command that runs a profile for an editor. `launcher` is the command of this program."""
    return [*launcher, VERB, profile]


def served(words: Sequence[str]) -> str | None:
    """Return the profile that a command runs for an editor, empty if it names none; None for any other command."""
    for each in (words, [piece for word in words for piece in word.split()]):
        for index, word in enumerate(each[1:], 1):
            if word == VERB and PureWindowsPath(each[index - 1]).stem in _OURS:  # of either separator
                return next(_profiles(each[index + 1 :]), "")
    return None


def _profiles(words: Sequence[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word in _TAKES_VALUE:
            next(rest, "")
        elif not word.startswith("-"):
            yield word


def toad(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """Write the command lines that open toad with each agent in the present directory."""
    return "".join(f"toad acp {_in_shell(_command_line(entry))} .\n" for entry in entries.values())


def neovim(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """Write Lua for each of Neovim's plugins that start agents."""
    return "\n".join(_neovim(name, entry) for name, entry in entries.items())


def _command_line(entry: Mapping[str, Any]) -> str:
    """Toad gives this to a shell, so variables go before the command."""
    variables = [f"{name}={value}" for name, value in entry["env"].items()]
    return shlex.join([*(("env", *variables) if variables else ()), entry["command"], *entry["args"]])


def _in_shell(text: str) -> str:
    """Quote a text; characters that cannot be seen are escapes."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = re.sub(r"[\\']", r"\\\g<0>", text)
    return "$'" + "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in escaped) + "'"


def _neovim(name: str, entry: Mapping[str, Any]) -> str:
    """CodeCompanion's preset for goose is extended since it has neither a login nor variables of its own."""
    called, command, args = _lua(name), _lua(entry["command"]), [_lua(word) for word in entry["args"]]
    env = ", ".join(f"[{_lua(key)}] = {_lua(value)}" for key, value in entry["env"].items())
    variables = f"          env = {{ {env} }},\n" if env else ""
    also = f", env = {{ {env} }}" if env else ""
    return (
        "-- CodeCompanion\n"
        'require("codecompanion").setup({\n'
        "  adapters = {\n"
        "    acp = {\n"
        f"      [{called}] = function()\n"
        '        return require("codecompanion.adapters").extend("goose", {\n'
        f"          name = {called},\n"
        f"          formatted_name = {called},\n"
        f"          commands = {{ default = {{ {', '.join([command, *args])} }} }},\n"
        f"{variables}"
        "        })\n"
        "      end,\n"
        "    },\n"
        "  },\n"
        "})\n"
        "\n"
        "-- avante.nvim\n"
        'require("avante").setup({\n'
        f"  provider = {called},\n"
        "  acp_providers = {\n"
        f"    [{called}] = {{ command = {command}, args = {{ {', '.join(args)} }}{also} }},\n"
        "  },\n"
        "})\n"
    )


def _lua(text: str) -> str:
    """Quote a text for LuaJIT, whose strings have the escape `\\u{...}`."""
    shown = (_ESCAPES.get(one) or (one if one.isprintable() else f"\\u{{{ord(one):x}}}") for one in text)
    return f'"{"".join(shown)}"'
