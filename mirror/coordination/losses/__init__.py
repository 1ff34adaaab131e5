"""Definitions that the coordination store has lost. Lost definitions are kept until an operator restores or
forgets them. May import `stores`. Read `store.py`; `stores/deletions/record.py` records deletions, which
distinguish deleted from lost definitions."""
