"""What ruamel.yaml says when text is no YAML, in words for the person who wrote it. Pure."""

from acp_launch.problem import Problem

# (part of the parser's context, part of its problem, our sentence, what to do); the first row that fits
_SENTENCES = (
    ("", "'\\t' that cannot start", "a tab is not allowed here", "indent with spaces"),
    ("", "mapping values are not allowed", 'a second ": " on this line, or wrong indentation',
     "quote the text, or line the key up with its neighbours"),
    ("quoted scalar", "unexpected end of stream", "this quoted text is never closed", "add the closing quote"),
    ("quoted scalar", "unexpected document separator", "this quoted text is never closed", "add the closing quote"),
    ("quoted scalar", "unknown escape", "unknown escape after a backslash in double quotes",
     "double the backslash, or use single quotes"),
    ("quoted scalar", "hexdecimal", "unfinished escape after a backslash in double quotes",
     "double the backslash, or use single quotes"),
    ("flow sequence", "", 'this "[" list is not closed, or a comma is missing', 'close it with "]"'),
    ("flow mapping", "", 'this "{" mapping is not closed, or a comma is missing', 'close it with "}"'),
    ("block collection", "", "this list item does not line up with the others", "give every item the same indentation"),
    ("block mapping", "", "this line does not line up with the keys around it",
     "give every key of one mapping the same indentation"),
    ("simple key", "", 'expected a ":" after this key', 'write "key: value"'),
    ("anchor", "", '"&" begins an anchor, and no name follows', 'quote text that begins with "&"'),
    ("alias", "", '"*" begins an alias, and no name follows', 'quote text that begins with "*"'),
    ("tag", "", '"!" begins a tag, and this is not one', 'quote text that begins with "!"'),
    ("", "undefined tag handle", '"!" begins a tag, and this one is unknown', 'quote text that begins with "!"'),
    ("block scalar", "", 'only an indentation or "-" or "+" may follow "|" or ">"', "begin the text on the next line"),
    ("", "incompatible YAML", "this YAML version is not supported", "remove the %YAML line"),
    ("", "<document start>", "this does not belong to the mapping above it", "indent it like the keys around it"),
    ("", "expected the node content", "a value is missing here", "write the value, or quote text with special marks"),
    ("", "mapping keys are not allowed", '"?" begins a key, and none is expected here',
     'quote text that begins with "?"'),
    ("", "sequence entries are not allowed", 'a "- " item is not allowed on this line',
     "begin the list on its own line"),
    ("", "that cannot start any token", "this character cannot begin a value", "quote the text"),
)  # fmt: skip


def syntax_problem(fault: Exception, file: str) -> Problem:
    """Point at the place the parser gave; errors without one (an escape beyond Unicode) name the file alone."""
    context, problem = (getattr(fault, name, None) or "" for name in ("context", "problem"))
    # An unclosed bracket or quote is where it opens, not where the parser ran out of text.
    opened = any(word in context for word in ("flow", "quoted")) and "escape" not in problem
    mark = (getattr(fault, "context_mark", None) if opened else None) or getattr(fault, "problem_mark", None)
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    for where, what, sentence, fix in _SENTENCES:
        if where in context and what in problem:
            return Problem(file, line, column, "", f"not valid YAML: {sentence}", fix)
    said = problem or "a character or escape outside Unicode"
    return Problem(file, line, column, "", f"not valid YAML: {said}")
