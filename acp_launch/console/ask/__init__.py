"""Questions to the user at a terminal.

A question of the agent or of acp-launch comes in, the answer goes out. Open `terminal` first: its `Questions` is the
`session.observer.Person` that the others ask with.

terminal     questions on a bare terminal, its echo, and the agent's stderr during a login
permission   a permission question and its answers
room         the text above a question, fitted to the screen
forms        a form, field by field
links        an address to open
logins       the choice of a login
"""
