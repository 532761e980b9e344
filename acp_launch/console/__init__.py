"""Everything that reaches a person or a script: text, tables, JSON, questions.

Plans, problems, survey results, session updates and errors come in. Lines on stdout (the answer) and on stderr
(everything else) go out; answers that the user types go back to the caller. Open `stderr` first: `harmless` and
the mark that every other module relies on are there.

stdout, stderr             the two streams, text in columns, and what makes foreign text safe on a terminal
problems                   problems and errors, with their fixes
profiles, plans, trust     `validate` and `list`, `plan`, `trust`
secrets, servers, doctor   `secret`, `mcp`, `doctor`
permissions, processes     `permission`; `ps` and `reap`
sessions                   `session`, and ages
trace                      `trace`: the steps of a trace
logs, interop              `logs`; `init`, `import` and `export`
ask.terminal               questions on a bare terminal, its echo, and the agent's stderr during a login; the others ask
                           with a `session.observer.Person` such as its `TerminalQuestions`
ask.permission, viewport   a permission question and its answers; the text above a question, fitted to the screen
ask.forms, links, logins   a form, field by field; an address to open; the choice of a login
draw.live                  the drawn output of a session: it receives every update, and draws with the others of `draw`
draw.markdown              messages of the agent as they grow: wrapped text, tables, code
draw.tools, difflines      tool calls, commands and changes of files; the changed lines between two texts
draw.theme, sanitize       symbols, indents, space, names of files; foreign text made safe for a terminal
draw.live_region           the redrawn rows at the end of a bare terminal, and the frame rate
stream.text                `--output text` into a pipe, `--output quiet`, and the notices, the base of every output
stream.ndjson, outlet      `--output json`: events; stdout as bytes, without blocking
stream.redacted            an output in front of another that removes secrets
"""
