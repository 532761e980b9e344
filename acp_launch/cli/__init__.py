"""
The command line: arguments in, an exit code out. `main.run` is the entry point; open `main` first, then `app`.

Each module but these four holds the verbs of one noun. They parse, call another package, mostly `app`, and show the
result.

- `main`: runs a command line; messages for words of other tools.
- `app`: the typer application with every verb.
- `verb`: the table of verbs; verbs declared once, and the reader that handles plain command lines without typer.
- `importing`: servers and agents of other tools become part of a profile, for `imports`.
"""
