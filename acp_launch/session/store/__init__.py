"""Named sessions on disk, and who is in one."""
