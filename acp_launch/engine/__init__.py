"""
One launch: an agent with its MCP servers, its session and its turns.

A plan, its secrets and the agent's process come in; events go to an observer, and the result of the turns comes out.
Open `run` first, which shows the order of a launch on one page.

- `run`: the order of a launch; opening a session; a run of one prompt.
- `agent`: the agent of a front that outlives it: its life, its sessions, requests that wait for it.
- `servers`: the MCP servers of a launch, and the waits for them.
- `context`: the facts fixed when the agent is started; the services for it: files, terminals, forms and links.
- `loop`: signals, the time limit of a run, and the guards while an event loop runs.
"""
