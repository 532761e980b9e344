"""A session as it is drawn on a terminal: words, tool calls, diffs, plans."""
