"""
What assembles a launch, whichever front asks for it: `planning` comes from a name to a plan, `stores`, `credentials`
and `secretvalue` to what it needs, `start` to its processes.

Below `cli`, `batch` and the Python API, which all call it.
"""
