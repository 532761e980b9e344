"""
The Python API (docs/api.md): the agent of a program runs in a private host, a child process.

    calls, order     launch, run, load_profile: as much as is needed to start the private host
    lifeline         that process, from its start to its end
    agent, thread    Agent, Session, Result: what talks to it
    child            the process: plan, secrets, and the agent's start
    host             the same while it has an agent: a host without a place where others find it
    words            what it says outside of sessions
"""
