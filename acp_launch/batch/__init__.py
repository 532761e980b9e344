"""
`batch`: tasks × profiles, each in a process of its own, here or on the user's own Dask cluster (docs/batch.md).

    verbs        the commands; `--help` imports nothing else of this package
    model        the format of the file, the frozen batch, the record of an attempt; what its records say of an item
    check        a file becomes a batch, or every problem at once
    freeze       its profiles are planned, its commits resolved; `batch.json`
    store        the directory of a batch: locks, attempts, records, and `results.jsonl`, which is made from them
    item         one attempt: its directory, `run`, the check, the patch, the record
    outcome      what the events of a run mean
    trees        the trees of a batch that are there
    worktree     directories for attempts
    baseline     what such a directory held, and the patch of what differs
    git          how git is called, and what it believes; what it is asked
    checking     the check of an item
    engine       what carries out attempts; `local` and `cluster` are engines
    schedule     which item starts when: jobs, accounts, pauses
    submit       carries the schedule out: retries, limits, signals
    progress     the display of a running batch; `table` is the one on a terminal
    figures      what the records say together
    report       text, Markdown and JUnit; `page` is HTML

The records on disk are the truth: whatever engine calls `batch item DIR ID`, and whatever dies, an attempt without a
record did not happen. Nothing else of acp-launch imports this package.
"""
