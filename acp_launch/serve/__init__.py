"""
A profile as an ACP agent on stdio, for editors (docs/serve.md).

Lines of the editor and of the agent come in, and go on as they are, but for ids and for what the profile has to say.
Open `relay` first, then `proxy`.

- `relay`: two hops of JSON-RPC; ids, answers, withdrawn requests. Sans-IO.
- `handshake`: what is edited in `initialize`. Pure.
- `proxy`: the editor's streams, and the agent, which is started again if it dies.
- `sessions`: what opens a session: its plan, its servers, its mode and options; and opens it again.
- `session`: one of them while it is open: the questions about its tool calls, and its name in the store.
- `entries`: the servers that an editor sends, as plans.
- `hosted`: a host in place of the agent.
"""
