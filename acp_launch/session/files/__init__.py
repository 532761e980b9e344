"""Files we read and write for the agent, within the session's directories (ACP v1 "File System")."""
