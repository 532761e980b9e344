"""The output of `validate` and `list`: answers on stdout, problems on stderr, or both as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acp_launch.console import problems as problem_lines
from acp_launch.console import stdout
from acp_launch.console.stderr import YELLOW, harmless_line, say, tell
from acp_launch.document.flow import inline, name
from acp_launch.document.nodes import Plain, Positions
from acp_launch.problem import KeyPath, Problem, count, errors, ours
from acp_launch.profile.discover import Found
from acp_launch.profile.load import Loaded, is_unread, shown
from acp_launch.protocol import acp
from acp_launch.secret.value import Outcome

Entry = tuple[Found, Loaded | None, Sequence[Problem]]


def show_reports(
    reports: Sequence[Entry], secrets: Mapping[str, Outcome], unmet: Sequence[Problem], *, as_json: bool, strict: bool
) -> bool:
    """Print one `FILE: ok` per good profile, the problems of the others, and the number of bad profiles.

    Return whether all are good. With `strict`, warnings count as errors. `secrets` are the outcomes of a lookup, and
    `unmet` the problems of secrets that this machine lacks, which are not a fault of the profile. A problem of a file
    that several profiles extend is shown once.
    """
    everything = list(dict.fromkeys(problem for *_, problems in reports for problem in problems))
    bad = [report for report in reports if (report[2] if strict else errors(report[2]))]
    if secrets:
        from acp_launch.console.secrets import state_lines, states
    if as_json:
        verdicts = [{"name": one[0].name, "file": str(one[0].file), "ok": one not in bad} for one in reports]
        looked_up = {"secret_states": states(secrets)} if secrets else {}
        found = [each.as_json() for each in (*everything, *unmet)]
        stdout.put_json({"profiles": verdicts, **looked_up, "problems": found})
        return not bad
    for report in reports:
        if report not in bad:
            file = report[0]
            called = f"{file.name} (built-in)" if file.origin == "built-in" else shown(file.file)
            stdout.line(harmless_line(f"{called}: ok"))
    for line in state_lines(secrets) if secrets else ():
        stdout.line(harmless_line(f"secret {line}"))
    outcome = _outcome(bad, len(reports))
    problem_lines.show(everything, as_json=False, outcome=outcome)
    if bad and not errors(everything):
        say(f"{count(len(everything), 'warning')}; {outcome}")
    absent = sum(state.state != "found" for state in secrets.values())
    problem_lines.show(unmet, as_json=False, outcome=f"{absent} of {len(secrets)} secrets are not available")
    return not bad


def _outcome(bad: Sequence[Entry], count: int) -> str:
    """Describe the result. A profile that only exposes something can be used, and yet it does not pass."""
    unusable = all(loaded is None for _, loaded, _ in bad)
    return f"{len(bad)} of {count} profiles {'cannot be used' if unusable else 'did not pass'}"


def show_list(entries: Sequence[Entry], *, as_json: bool) -> None:
    """Print one line per profile: its name, its origin, its description."""
    if as_json:
        stdout.put_json({"profiles": [_as_json(*entry) for entry in entries]})
    for line in () if as_json else stdout.columns(list(rows(entries))):
        stdout.line(line)
    if unread := sum(is_unread(problems) for *_, problems in entries):
        tell(
            f"profiles of this project that were not read, as they are too many or too large: {unread:,}", style=YELLOW
        )


def rows(entries: Sequence[Entry]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the origin and the description of each profile."""
    for found, loaded, problems in entries:
        yield found.name, found.origin, _remark(found, loaded, problems)


def _as_json(found: Found, loaded: Loaded | None, problems: Sequence[Problem]) -> dict[str, Any]:
    return {
        "name": found.name,
        "origin": found.origin,
        "description": description(loaded),
        "file": str(found.file),
        "project": str(found.project),
        "shadowed_by": str(found.shadowed_by) if found.shadowed_by else None,
        "problems": len(errors(problems)),
    }


def description(loaded: Loaded | None) -> str:
    """Return the description with credentials masked, because lists are pasted into issues."""
    from acp_launch.secret.detect import masked

    return masked(loaded.profile.description) if loaded else ""


def _remark(found: Found, loaded: Loaded | None, problems: Sequence[Problem]) -> str:
    faults = len(errors(problems))
    wrong = f"({count(faults, 'problem')}: {ours('validate', shown(found.file))})" if faults else ""
    hidden = f"(shadowed by {shown(found.shadowed_by)})" if found.shadowed_by else ""
    return " ".join(filter(None, (description(loaded), wrong, hidden))) or shown(found.file)


# A merged profile as YAML: it extends nothing, and a comment gives the origin of each value.
#
# The layers may come from anywhere, so unprintable characters in values, keys and comments are written as escapes.


def as_yaml(loaded: Loaded) -> str:
    """Return the merged profile as YAML that ends in a newline."""
    layers = [f"#   {harmless_line(layer.label)}" for layer in loaded.layers]
    head = [f"# {harmless_line(loaded.found.name)}, merged from", *layers]
    path = ("permissions", "rules")
    rules = acp.sequence(acp.mapping(loaded.merged.get(path[0])).get(path[1]))
    if len({loaded.positions.where((*path, index)).file for index in range(len(rules))}) > 1:
        head.append("# What the rules of one of these files deny stays denied, though a rule above it may allow it.")
    return "\n".join([*head, *_yaml_lines(loaded.merged, (), loaded.positions), ""])


def _yaml_lines(mapping: Mapping[str, Plain], path: KeyPath, positions: Positions) -> Iterator[str]:
    indent = "  " * len(path)
    for key, value in mapping.items():
        inner = (*path, key)
        if isinstance(value, dict) and value:
            yield f"{indent}{name(key)}:"
            yield from _yaml_lines(value, inner, positions)
        elif isinstance(value, list) and value:
            yield f"{indent}{name(key)}:"
            for index, item in enumerate(value):
                yield f"{indent}  - {inline(item)}  {_origin((*inner, index), positions)}"
        else:
            yield f"{indent}{name(key)}: {inline(value)}  {_origin(inner, positions)}"


def _origin(path: KeyPath, positions: Positions) -> str:
    at = positions.where(path)
    return harmless_line(f"# {at.file}:{at.line}")
