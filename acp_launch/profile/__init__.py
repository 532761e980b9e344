"""
Profiles: found by name, read with everything they extend, checked, trusted, and edited.

In: a name or a path. Out: a `Loaded` profile with the line of every value, or every Problem at once. Open `model` for
the format, then `load` for the way from file to profile.

    model      the format as frozen values; its docstrings are the descriptions in schema.json
    keys       a row for each key: where it is shown, whether it is exported, and what a reload does with it
    values     templates, numbers, addresses, headers: what one value may be
    discover   a name to a file; the text of a file
    layers     those files, what `extends` may say, and how they merge
    check      each file as YAML, all of them merged, a document to a `Profile`; `rules` has what types cannot express
    load       all files that a profile is made of, and all of this, with a cache of profiles without problems
    leaks      credentials written in a profile
    trust      which profiles of projects the user accepted, and what a variable can do
    edit       set or remove one value; `yamledit` changes the text
    scaffold   the text of a new profile
    agents     published agents: how to start, install and log in to each
    schema     the format as JSON Schema
"""
