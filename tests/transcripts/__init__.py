"""Whole conversations, compared with what was said before: see test_transcripts.py."""
