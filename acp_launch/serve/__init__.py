"""
A profile as an ACP agent on stdio, for editors (docs/serve.md).

Lines of the editor and of the agent come in, and go on as they are, but for ids and for what the profile has to say.
Open `face` first.

- `face`: the editor's lines and requests, and what the agent has for it; the agent's life is that of any launch.
- `lines`: the editor's lines, and its requests that are not answered yet.
- `session`: a session of the editor: its plan and servers, the agent's answer, questions, its name in the store.
- `handshake`: what is edited in `initialize`. Pure.
- `entries`: the servers that an editor sends, as plans.
"""
