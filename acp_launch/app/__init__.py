"""
What assembles a launch, whichever front asks for it: `planning` comes from a name to a plan, `stores`, `credentials`
and `secretvalue` to what it needs, `start` to its processes.

Below `cli`, `batch` and the Python API, which all call it. The Python API:

    api, order     launch, run, load_profile: as much of it as is needed to start the private host
    lifeline       that process, from its start to its end
    agent, thread  Agent, Session, Result: what talks to it
    child          the process: plan, secrets, and the agent's start
    privatehost    the same while it has an agent: a host without a place
    words          what it says before a session is open
"""
