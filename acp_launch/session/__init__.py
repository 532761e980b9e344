"""
One session with an agent: the connection, the opening, prompt turns, and the services that the agent may ask for.

In comes a started agent's transport and the plan. Out come prompts, answers to the agent's requests, and calls of the
`Observer`, which shows everything. Open `connection` first, then `opening`, then `client`.

    connection    the ACP connection: calls with deadlines, and the handshake
    opening       opens a session (new, load or resume) and sets its options
    client        answers the agent's requests, and runs prompt turns
    events        what a session says: one value, and one line of JSON, for each fact; the interfaces of what shows it,
                  asks the user, and serves the agent
    state         what the agent has said about the session so far; its tool calls
    options       the options of a session, and the value a user means
    login         logs in to the agent, and says how the user can
    store         named sessions on disk
    hold          the lock of a named session
    files         reads and writes files for the agent
    safepath      opens files only within the session's directories
    terminals     runs commands for the agent
    attachments   files in a prompt
    permission/   what the agent may do
    elicitation   forms and links for the user
"""
