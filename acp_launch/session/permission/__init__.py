"""
What the agent may do: rules, remembered answers, the record of decisions, and asking the user.

In comes a tool call, from the agent or from our own services; out comes a `Decision`. Open `policy` first, then `gate`.

    policy       decides from rules and remembered answers: allow, deny or ask
    gate         asks the policy, then the user, and records the answer; tells calls that ran although they should not
    subject      what a tool call is about: files, commands, addresses
    globs        how the globs of a rule match
    audit        the permission log, and the answers stored for a profile
"""
