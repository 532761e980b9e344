"""The interactive session, imported only when one is started, because prompt_toolkit is heavy.

A plan, the means of a launch and the user's keys come in; prompts to the agent go out, and the session is drawn. Open
`session` first: it runs agent after agent and session after session, turn by turn.

session       the order of an interactive session, its turns, and restarting a dead agent
state         what the session and the commands share: the held session, the status line, completions
commands      the `:` commands
terminal      the interface between a session and what shows it, and its events
application   the front on a terminal: prompt, status line, questions, keys
layout        its windows, the status line and the rows of a question
screen        the terminal: its canvas, one write per frame, its keys
attention     how the user is called: bell, title
questions     its questions, safe from keys typed before them
picker        a list to choose from, with a filter
completion    its completions: commands, values, files
history       its history of prompts, on disk
lines         the front on a dumb terminal, line by line
output        the output of a session, the transcript for `:export`, folded pieces, the agent's activity
"""
