"""
The plan of a launch: everything is decided, nothing is started.

In: a checked profile, the environment and this machine, or a command line (`--agent`). Out: a `LaunchPlan` in which
only secrets are unresolved, or every Problem at once. Open `model` first, then `resolve`.

    model        `LaunchPlan` and its parts; a `Value` knows where it came from; the secrets that a profile refers to
    resolve      a profile, or a command line, and this machine to a plan
    locked       an agent of the registry as it is installed; the packages of a plan, and how they differ from the lock
    executable   the program of a command on PATH; directories; what of a project could replace it, or run in it; the
                 variables that a child inherits
    shared       a server that launches share, and what makes two of them one
"""
