"""The registry's index and its archives, on a server of the test; agents are installed from there."""
