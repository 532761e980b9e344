"""What the agent tells of a session, and what can be set in it (ACP v1 "Session Config Options")."""
