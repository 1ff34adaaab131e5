"""Generates pages of docs/: the references of settings (`of_settings`), metrics (`of_metrics`, with their
names in other mirrors in `other_mirrors`), commands (`of_commands`), errors (`of_errors`) and fields of a
datastream (`of_fields`).

May import all packages and the settings. Start with `of_settings`.
"""
