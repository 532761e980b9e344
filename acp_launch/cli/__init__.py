"""
The command line: arguments in, an exit code out. `main.run` is the entry point; open `main` first, then `app`.

Most modules hold the verbs of one noun. They parse, call another package and show the result. Their imports stand in
function bodies, so that `--help` and small verbs load little.

Entry and parsing:
- `main`: runs a command line and turns each exception into a message and an exit code.
- `app`: the typer application with every verb.
- `quick`: verbs declared once, and the reader that handles plain command lines without typer.
- `tab`, `completion`, `complete`: shell completion: the protocol, the candidates, the script.
- `help`, `manual`: the documentation and its search.

Launching:
- `run`, `wish`: the verb `run` and its request, options and prompt.
- `job`, `start`, `session_needs`, `sit`: one run, its processes, the session's needs, the interactive session.
- `planning`: a profile or command line becomes a launch plan; asks for trust.
- `screen`, `books`: a run's output, and its permission record.
- `errand`, `probe`: an agent or an MCP server started for one operation.

Verbs:
- `profiles`, `edit`, `init`, `drafting`: `validate`, `plan`, `list`, `show`, `schema`; `profile`; `init`.
- `interop`, `incoming`, `outgoing`, `adopt`, `shelving`: `import` and `export`.
- `secrets`, `secretvalue`, `stores`, `execute`: `secret`, and the store that the user chose.
- `sessions`, `permission`, `trust`, `logs`, `processes`, `login`: the verbs of these names, `ps` and `reap`.
- `doctor`, `checkup`: `doctor`.
- `mcp`, `toolarguments`: `mcp`.
"""
