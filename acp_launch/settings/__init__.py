"""
The user's settings: directories, limits, and where secrets are stored. A project cannot set them.

In: `config.yaml` in the configuration directory, and `ACP_LAUNCH_*` variables. Out: `Settings`, or every Problem at
once. Open `model` first.

    model       the settings as frozen values, and the environment variables that are settings
    address     which servers a command that prints headers is for
    load        find and read everything; also `grounds`, the projects around a directory
    origin      each setting and where it comes from, for `config`
    check       the same as a pydantic-settings class, which words the faults; imported only after a change
"""
