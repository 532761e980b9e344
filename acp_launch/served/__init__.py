"""
An agent for others than its own terminal: a host, and a profile that is served to an editor.

A host outlives its terminal (docs/up.md); its fronts attach to it by a socket. An editor has a profile as its agent, on
stdio (docs/serve.md). Open `host` or `editor` first. Both have the agent and its life from `engine.agent`.

- `host`: the sessions of a host, and what its fronts may ask for.
- `hostsession`: a session of it: its turns, one after the other, and the fronts that are attached to it.
- `connections`: a front as its host sees it.
- `client`: a host as its front sees it: the agent of a run.
- `wire`: what the two say to each other.
- `connect`, `registry`: where hosts are found, and how they are reached.
- `serverhost`, `shared`: the processes of servers that launches share, and the way to them.
- `editor`: the editor's lines and requests, and what the agent has for it.
- `editorsession`: a session of the editor: its plan and servers, the agent's answer, questions, its name in the store.
- `lines`: the editor's lines, and its requests that are not answered yet.
- `handshake`: the edits of `initialize`. Pure.
- `entries`: the servers that an editor sends, as plans.
"""
