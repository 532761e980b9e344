"""
Agents of the registry, which the ACP project publishes: the index of agents, and those that are installed here.

In: an index, and an agent's id. Out: an `Installation`, whose program a plan starts. Only the verbs of `agents` touch
the network; a plan reads this machine only. Open `installed` first.

    installed   which agents and versions are installed, and the one that a profile means
    index       what the registry publishes, its copy on this machine, and packages of npx and uvx
    download    a file from an address: bounded, encrypted, redirects included
    install     an agent of the index becomes an installation; its archive becomes files below their directory
"""
