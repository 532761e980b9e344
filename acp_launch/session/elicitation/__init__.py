"""Forms and links the agent wants a person to fill in or follow (ACP v1 "Elicitation")."""
