"""
What somebody wants of a session, looked up in what the agent offers; or which of it is not there, and what is. Pure.

Nothing is guessed from a beginning: with `gpt-5` nobody means `gpt-5.5`, and tomorrow's agent offers more. What is
close is only suggested.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from acp_launch.errors import SessionError
from acp_launch.session.options.option import NAME, Choosable, Option, Options, Value, match, one_line

LISTED = 10  # values or options in one message
TYPED = 40  # characters somebody types
TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")
T = TypeVar("T")


class NotOffered(SessionError):  # noqa: N818 - it reads as what happened
    """Raised when the agent does not offer what is to be set."""


def find(options: Options, wanted: str) -> Option:
    """The option meant, as `match`.

    Raises:
        NotOffered: there is none; says which there are.
    """
    option = match(options, wanted)
    if option is not None:
        return option
    if not options:
        raise NotOffered("the agent offers nothing that can be set", fix="leave it out")
    listed = _listed(options, _id)
    if wanted in ("mode", "model"):  # one is no misspelling of the other
        raise NotOffered(f"the agent offers no {wanted}s to choose from", fix=f"leave it out; it offers {listed}")
    known = [word for option in options for word in (option.id, option.category, option.name)]
    meant = match(options, _nearest(wanted, known))
    suggestion = _did_you_mean([_id(meant)] if meant else [])
    raise NotOffered(f'the agent offers no option "{one_line(wanted)}"{suggestion}', fix=f"use one of {listed}")


def value_of(option: Option, wanted: Value) -> Value:
    """The value meant, to be sent: it is `wanted` itself, or is called so in any case.

    Raises:
        NotOffered: there is none, or several have that name; says which there are.
    """
    if option.kind == "boolean":
        return _switched(option, wanted)
    words = (TRUE if wanted else FALSE) if isinstance(wanted, bool) else (wanted,)
    for word in words:  # YAML reads a plain `true` as no text
        found = _called(option, word)
        if len(found) == 1:
            return found[0].value
        if found:
            raise NotOffered(
                f'"{one_line(word)}" is the name of {len(found)} values of "{_id(option)}"',
                fix=f"use one of {_listed(found, _value)}",
            )
    raise _no_value(option, words[0])


def spoken(option: Option, choice: Choosable) -> str:
    """What to write for it: its value, or its own name for one nobody types (copilot's modes are URLs)."""
    if not 0 < len(choice.value) <= TYPED and _called(option, choice.name) == [choice]:
        return choice.name
    return one_line(choice.value)


def _switched(option: Option, wanted: Value) -> bool:
    word = str(wanted).casefold()
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise NotOffered(f'"{_id(option)}" is either true or false, not "{one_line(wanted)}"', fix="write true or false")


def _called(option: Option, word: str) -> list[Choosable]:
    """The choice of exactly that value, else those of that value in any case, else those of that name."""
    plain = word.casefold()
    ways: tuple[Callable[[Choosable], bool], ...] = (
        lambda choice: choice.value == word,
        lambda choice: choice.value.casefold() == plain,
        lambda choice: choice.name.casefold() == plain,
    )
    for way in ways:
        if found := {choice.value: choice for choice in option.choices if way(choice)}:
            return list(found.values())
    return []


def _no_value(option: Option, wanted: str) -> NotOffered:
    kind, word = option.category, one_line(wanted)
    known = kind in ("mode", "model")
    message = f'no {kind} "{word}"' if known else f'no value "{word}" for "{_id(option)}"'
    if not option.choices:
        return NotOffered(f"the agent offers {message}", fix="leave it out; it offers nothing to choose from")
    meant = _nearest(wanted, [text for choice in option.choices for text in (choice.value, choice.name)])
    suggested = [spoken(option, choice) for choice in option.choices if meant and meant in (choice.value, choice.name)]
    return NotOffered(
        f"the agent offers {message}{_did_you_mean(suggested)}",
        fix=f"use one of {_listed(option.choices, lambda choice: spoken(option, choice))}",
    )


def _did_you_mean(suggested: Sequence[str]) -> str:
    return f'; did you mean "{suggested[0]}"?' if suggested else ""


def _nearest(word: str, known: Sequence[str]) -> str:
    """What holds the word, else what looks like it; empty when nothing does."""
    from difflib import get_close_matches

    plain = one_line(word).casefold()
    holding = [text for text in known if len(plain) > 1 and plain in text.casefold()]
    by_case = {text.casefold()[:NAME]: text for text in reversed(known) if text}
    return next(iter(holding or [by_case[text] for text in get_close_matches(plain, by_case, 1)]), "")


def _listed(items: Sequence[T], spoken: Callable[[T], str]) -> str:
    more = f" and {len(items) - LISTED} more" if len(items) > LISTED else ""
    return ", ".join(map(spoken, items[:LISTED])) + more


def _id(option: Option) -> str:
    return one_line(option.id)


def _value(choice: Choosable) -> str:
    return one_line(choice.value)
