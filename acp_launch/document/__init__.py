"""
YAML documents in which every value knows its line. Profiles and the settings file are read through this package.

In: the bytes of a file. Out: a `Document`, or a `Problem` at its line for everything that is wrong. Open `yaml` first.

    nodes     the tree of a document; plain values of YAML 1.2; bytes to text
    yaml      text to a `Document`, with limits on size, depth and aliases
    faults    a fault at one path, before its line is known; the sentences that all formats share
    shape     `Shape`: what a mapping may hold, as a frozen struct
    scalars   `Duration` and `Size` as users write them
    flow      values on one line of YAML; the words of a command line
    cache     documents that were checked before, so that the next start needs neither YAML nor pydantic
"""
