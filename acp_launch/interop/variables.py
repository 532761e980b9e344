"""
What another tool takes from elsewhere, in its own way of writing, becomes a reference of ours. Pure.

    shell   ${VAR}  ${VAR:-default}                 Claude Code
    dollar  $VAR  ${VAR}  ${VAR:-default}           Gemini CLI, and goose in headers
    code    ${env:VAR}  ${input:id}  ${workspaceFolder}  ${userHome}   VS Code, Cursor
    braces  {env:VAR}  {file:path}                  opencode
    none    everything is text                      Claude Desktop, Codex, Zed, JetBrains, acpx, goose

Whatever a tool passes on as it stands is text for us too: a `${` in it is written `$${`.
"""

import re
from collections.abc import Container, Mapping

from acp_launch.interop.places import Dialect
from acp_launch.secret.environment import is_private
from acp_launch.secret.reference import NAME

_SHELL = r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}"
_PATTERNS: Mapping[Dialect, re.Pattern[str]] = {
    "none": re.compile(r"(?!)"),
    "shell": re.compile(_SHELL),
    "dollar": re.compile(_SHELL + r"|\$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"),
    "code": re.compile(r"\$\{(?P<inside>[^{}]*)\}"),
    "braces": re.compile(r"\{(?P<kind>env|file):(?P<what>[^{}]*)\}"),
}
_FOLDERS = {"workspaceFolder": "${project}", "workspaceRoot": "${project}", "userHome": "${home}"}
_MARKS = {"pathSeparator": "/", "/": "/"}


class Untranslatable(ValueError):  # noqa: N818 - it reads as what it is
    """Raised for what has no counterpart here; the message continues a sentence that begins with its place."""


def translated(text: str, dialect: Dialect, inputs: Container[str] = ()) -> str:
    """`inputs` are the ids of what the tool asks a person for; each becomes `${secret:ID}`, whatever it is called.

    Raises:
        Untranslatable: part of it has no counterpart.
    """
    written, done = "", 0
    for found in _PATTERNS[dialect].finditer(text):
        written += _literal(text[done : found.start()])
        reference = _reference(found, inputs)
        if written.endswith("$") and reference.startswith("$"):
            raise Untranslatable('has a "$" right before a variable')
        written += reference
        done = found.end()
    return written + _literal(text[done:])


def _literal(text: str) -> str:
    return text.replace("${", "$${")


def _reference(found: re.Match[str], inputs: Container[str]) -> str:
    parts = found.groupdict()
    if parts.get("inside") is not None:
        return _of_editor(found["inside"], inputs)
    if parts.get("kind") == "file":
        raise Untranslatable("is read from a file")
    if parts.get("kind") == "env":
        return _variable(found["what"])
    return _variable(parts.get("name") or parts.get("bare") or "", parts.get("default") or "")


def _of_editor(inside: str, inputs: Container[str]) -> str:
    kind, separator, name = inside.partition(":")
    if separator and kind == "env":
        return _variable(name)
    if separator and kind == "input":
        if name in inputs:
            return f"${{secret:{name}}}"
        raise Untranslatable("asks for an input that the file does not describe")
    if separator and kind == "workspaceFolder":
        raise Untranslatable("names one of several workspace folders")
    if inside in _FOLDERS or inside in _MARKS:
        return _FOLDERS.get(inside) or _MARKS[inside]
    raise Untranslatable(f"uses a variable that only the editor knows ({kind if kind.isalnum() else 'unnamed'})")


def _variable(name: str, default: str = "") -> str:
    if not re.fullmatch(NAME, name):
        raise Untranslatable("names a variable as nobody can")
    if is_private(name):
        raise Untranslatable("names a variable that is for acp-launch alone")
    if "${" in default or "{" in default:
        raise Untranslatable("has a variable in the default of another")
    return f"${{env:{name}{default}}}"
