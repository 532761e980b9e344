"""
One session with an agent: the connection, the opening, prompt turns, and the services that the agent may ask for.

In comes a started agent's transport and the plan. Out come prompts, answers to the agent's requests, and calls of the
`Observer`, which shows everything. Open `connection` first, then `opening`, then `client`.

    connection    the ACP connection: calls with deadlines, and the handshake
    opening       opens a session (new, load or resume) and sets its options
    client        answers the agent's requests, and runs prompt turns
    observer      the interface of everything that shows a session
    person        the interface that asks the user a question
    state         what the agent has said about the session so far; its tool calls
    options       the options of a session, and the value a user means
    login         logs in to the agent; `advice` says how
    advice        the command that helps when an agent wants a login
    store         named sessions on disk
    hold          the lock of a named session
    service       the interface of the services below
    files         reads and writes files for the agent
    safepath      opens files only within the session's directories
    terminals     runs commands for the agent
    attachments   files in a prompt
    permission/   what the agent may do
    elicitation/  forms and links for the user
"""
