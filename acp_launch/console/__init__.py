"""Everything that reaches a person or a script: text, tables, JSON, questions.

Plans, problems, survey results, session updates and errors come in. Lines on stdout (the answer) and on stderr
(everything else) go out; answers that the user types go back to the caller. Open `stderr` first: `harmless` and
the mark that every other module relies on are there.

columns, sessions          text in columns, terminal cells, ages
stdout, stderr             the two streams, and what makes foreign text safe on a terminal
problems                   problems and errors, with their fixes
profiles, plans, trust     `validate` and `list`, `plan`, `trust`
secrets, servers, doctor   `secret`, `mcp`, `doctor`
permissions, processes     `permission`; `ps` and `reap`
trace                      `trace`: the steps of a trace
logs, interop              `logs`; `init`, `import` and `export`
ask                        questions at the terminal: permissions, forms, links, logins
draw                       the drawn answer of a run on a terminal (rich)
stream                     the plain and JSON answer of a run (without rich)
"""
