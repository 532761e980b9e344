"""
Configuration files of other tools: imported into a profile, and exported from one.

In: a tool's file, or a profile. Out: drafts of profile entries, or the tool's entries, with a note for everything that
has no counterpart. Open `tools` first.

    tools     the table of tools, where their files lie, and how a file is read
    read      a tool's entries, key by key, with its references translated
    drafts    entries to drafts of a profile, with their credentials taken out
    merge     drafts into a profile's text; a user's file replaced, unless it changed
    write     a profile to a tool's entries, and those into the tool's file
    formats   JSON with comments: read, and one value changed
"""
