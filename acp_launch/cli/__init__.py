"""
The command line: arguments in, an exit code out. `main.run` is the entry point; open `main` first, then `app`.

Most modules hold the verbs of one noun. They parse, call another package and show the result. Their imports stand in
function bodies, so that `--help` and small verbs load little.

Entry and parsing:
- `main`: runs a command line and turns each exception into a message and an exit code.
- `app`: the typer application with every verb.
- `verb`: the table of verbs; verbs declared once, and the reader that handles plain command lines without typer.
- `completion`: the candidates of shell completion, and its script.
- `help`: the documentation and its search.

Launching:
- `run`, `run_request`: the verbs `run` and `attach`; the request, its prompt and its output.
- `up`, `reload`, `attach`: a host, what changes in it, and its fronts.
- `start`, `operation`: the processes of a launch and the context of its sessions; one operation of a verb.
- `interactive_run`: the terminal of an interactive session.
- `planning`: a profile or command line becomes a launch plan; asks for trust, and for what a run lacks.
- `probe`: an MCP server started for one operation.

Verbs:
- `profiles`, `edit`: `validate`, `plan`, `list`, `show`, `schema`; `edit` and `profile`.
- `imports`, `import_request`, `newprofile`, `drafting`, `importing`, `exporting`: `init`, `import` and `export`.
- `secrets`, `secretvalue`, `stores`, `execute`: `secret`, and the store that the user chose.
- `sessions`, `permission`, `trust`, `login`: the verbs of these names, and `lock`.
- `machine`, `checkup`: `ps`, `reap`, `logs`, `trace` and `doctor`; what `doctor` examines.
- `mcp`: `mcp`.
"""
