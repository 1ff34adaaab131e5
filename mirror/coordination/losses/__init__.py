"""Definitions that the coordination store has lost. They are kept until an operator restores or forgets them.
May import `stores`. Read `store.py`; `stores/deletions/record.py` records deletions, which distinguish
deleted definitions from lost ones."""
