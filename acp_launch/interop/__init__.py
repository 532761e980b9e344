"""Other tools' configuration: what they say becomes part of a profile, and a profile becomes what they read."""
