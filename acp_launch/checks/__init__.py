"""
The checks of `doctor`: facts about this machine and a profile, each with the next command to run if it is bad.

In: settings, a loaded profile, and the answers of an agent and its servers. Out: `Check`s. Open `check` first.

    check      `Check`, one line of the report; the exit code; `Anonymizer` for bug reports
    machine    version, directories, limits, control group, leftovers
    confined   whether an agent can be confined, and what its place lacks
    node       Node.js: its version, and where npm installs
    profile    the profile, its trust, its secrets, and its agent and servers planned one by one
    answers    the answers of agent and servers; whether a remote server accepts connections
"""
