"""Situations from public bug reports of other software, reproduced here."""
