"""The streamed output of a session: text or events on stdout, notices on stderr. It never imports rich.

Session updates come in, bytes on stdout and lines on stderr go out. Open `text` first: its `Notices` is the base of
every output, the drawn one included.

text       `--output text` into a pipe, `--output quiet`, and the notices on stderr
ndjson     `--output json`: events
outlet     stdout as bytes, without blocking
redacted   an output in front of another that removes secrets
"""
