"""YAML text that knows the line of every value: what profiles and the settings file are read from."""
