"""
Configuration files of other tools: imported into a profile, and exported from one.

In: a tool's file, or a profile. Out: drafts of profile entries, or the tool's entries, with a note for everything that
has no counterpart. Open `tools` first.

    tools     the tools, where their files lie, and how a file is read
    read      a tool's entries, key by key, with its references translated
    drafts    entries to drafts of a profile, with their credentials taken out
    merge     drafts into a profile's text
    write     a profile to a tool's entries, and those into the tool's file
    editors   the command by which an editor starts a profile
    formats   JSON with comments: parse it, change one value; TOML: put one table
    files     replace a user's file, unless it changed meanwhile
"""
