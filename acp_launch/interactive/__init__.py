"""A session to sit in front of. Imported only when somebody does."""
