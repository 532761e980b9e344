"""What the agent may do: rules, answers that are kept, the record of them, and who is asked."""
