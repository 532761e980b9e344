"""
What assembles a launch, whichever front asks for it. Below `cli`, `batch` and the Python API, which all call it.

    spec                   the launch that a command asks for
    planning, consent      from a name to a plan; what the user is asked before anything starts
    supply                 secrets and logins that a plan needs
    stores, credentials    secrets, and logins to remote servers
    start, context         its session and processes; the context of sessions, once the agent starts
    screen, output         the output of a run, from its start and once there is some
    attach, front          a run in a host: whether there is one; its prompt or terminal
    up, host_start, host_fronts, reload     a host: begun, until its agent starts, while it runs, changed
    serve, editor          a served profile, until its agent starts, and its sessions
"""
