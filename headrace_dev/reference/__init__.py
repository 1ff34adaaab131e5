"""Generated pages of docs/: the references of settings (`of_settings`), metrics (`of_metrics`, with their
names in other mirrors in `other_mirrors`), commands (`of_commands`) and errors (`of_errors`).

May import all packages and the settings. Start with `of_settings`.
"""
