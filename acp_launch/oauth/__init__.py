"""
Logging in to remote MCP servers (MCP "Authorization", OAuth 2.1), and keeping the tokens.

A server's address comes in; a `Grant` in the user's secret store comes out, and from then on an access token for each
request. No agent and no server but its own sees one. Open `grant` first, then `keeper`.

- `grant`: the tokens of a login as they are stored, and its record, which holds no secret.
- `exchange`: requests to a token endpoint, and their answers.
- `metadata`: what servers say about logins: where to look, and refusals.
- `flow`: one login, from a refusal to a grant.
- `listener`: where the browser comes back to.
- `keeper`: gives the access token of a grant, and renews it once for all tasks and processes.
"""
