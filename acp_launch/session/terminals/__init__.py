"""Commands we run for the agent (ACP v1 "Terminals")."""
