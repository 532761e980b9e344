"""A session as it is written: text, events, and what stands beside them on stderr."""
