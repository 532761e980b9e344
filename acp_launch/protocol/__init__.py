"""Bytes become meaning. Sans-IO throughout: nothing here waits, reads a clock or knows a process."""
