"""The plan that leaves the assigner: its sums, bounds and reasons, and the verifier that every plan must
pass.

`plan.py` is the value, `assemble.py` fills it, `explain.py` writes its sentences. `check.py` shares no code
with the stages. Imports `stages` and what is below them.
"""
