"""Flags in, exit code out: one short function per verb, one file per noun; lazy imports live here."""
