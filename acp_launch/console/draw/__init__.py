"""The drawn output of a session on a terminal, with rich.

Session updates come in, rows of a terminal go out. Open `live` first: it receives every update and notice, and draws
with the other modules.

live        the output itself, thoughts, plans, and news about the session
markdown    messages of the agent as they grow
tools       tool calls, commands and changes of files
region      the redrawn rows at the end of a bare terminal, and the frame rate
look        symbols, indents, and the space between the parts of a turn
files       names of files, and links to those of the project
layout      wrapped text, tables, code
difflines   the changed lines between two texts
outside     foreign text made safe for a terminal
"""
