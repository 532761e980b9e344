"""The credentials that a layer gives away, each a Problem at its place (see `leaks`)."""

from collections.abc import Iterable, Iterator

from acp_launch.document.keypath import dotted
from acp_launch.problem import Problem
from acp_launch.profile.layers import Part


def exposed(parts: Iterable[Part]) -> tuple[Problem, ...]:
    """Each layer is looked at for itself: what another one replaces can be read all the same."""
    return tuple(problem for part in parts for problem in (*_leaks(part), *_strays(part)))


def _leaks(part: Part) -> Iterator[Problem]:
    if part.document is None:
        return
    from acp_launch.profile.leaks import leaks
    from acp_launch.secret.credential import masked

    for leak in leaks(part.document.root):
        line, column = part.document.locate(leak.path, offset=leak.offset)
        where = masked(dotted(leak.path))
        yield Problem(part.layer.label, line, column, where, leak.message, leak.fix, leak.severity)


def _strays(part: Part) -> Iterator[Problem]:
    from acp_launch.profile.leaks import strays

    text = part.layer.text.removeprefix("\ufeff")  # as `parse` counts
    for (line, column), stray in strays(text, _told(part)):
        yield Problem(part.layer.label, line, column, "", stray.message, stray.fix, stray.severity)


def _told(part: Part) -> Iterator[tuple[tuple[int, int], int, str]]:
    """The literals that `_leaks` speaks of."""
    if part.document is None:
        return
    from acp_launch.profile.leaks import literals

    for path, offset, literal in literals(part.document.root):
        yield part.document.locate(path, offset=offset), offset, literal
