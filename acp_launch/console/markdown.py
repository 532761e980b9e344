"""Where a growing Markdown text is finished: at the last blank line that is not inside a code block."""


def finished(text: str) -> tuple[str, str]:
    """Split into what will not change any more, and the rest. Both together are `text`."""
    if "\n\n" not in text:
        return "", text
    cut = position = 0
    fence = ""
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        if fence:
            fence = "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
        elif bare.startswith(("```", "~~~")):
            fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
        position += len(line)
        if not fence and not bare and line.endswith("\n"):
            cut = position
    return text[:cut], text[cut:]
