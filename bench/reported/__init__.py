"""Situations from public bug reports of other software, tried here."""
