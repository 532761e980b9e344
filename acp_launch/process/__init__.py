"""
Processes: how each child is started, supervised, ended and reaped, so that none outlives a launch.

In comes an argv with its environment and directory. Out come a running `Child` (pipes, exit), `Change` values of a
supervised server, and at the end an `Outcome` with the survivors, if any. Open `spawn` first, then `child` (the ladder
that stops a child), then `supervisor`.

    spawn        starts every process, and reaps it
    prepare      what this process must be before its first child: subreaper, descriptor limit; the mark of its children
    table        the processes of this machine, as values; descriptors for them, and waiting without an event loop
    tree         everything that descends from one spawned process; signals, and the final kill
    watch        waiting for them in the event loop
    child        a running child: its streams, its exit, and how it is stopped
    program      what a supervisor starts: a program of this machine, or a remote server; package runners
    supervisor   one MCP server over many processes, driven by `lifecycle`
    lifecycle    the states of a supervised server, as a table
    guard_client the launcher's side of its two guards
    guard_process the guards: they end everything if the launcher dies; the line to them
    cgroup       a control group for the launch
    records      the launch records that `ps`, `doctor` and `reap` read
    leftovers    processes left behind by launches that crashed; the tree that `ps` shows
    logs         a log file for each agent and server
    flow         bytes between two processes, pushed instead of awaited
    capture      one program run to its end, without an event loop
    terminal     a command that the agent asked us to run
    foreground   a program in the user's own terminal
    detached     a program that is not part of the launch
    node         versions of Node.js, and what tells that one is too old
    workdir      empty private directories for servers
"""
