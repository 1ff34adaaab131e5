"""Plans returned by the assigner: sums, bounds and reasons, and the verifier that every plan must pass.

`placement_answer.py` is the value, `assemble.py` builds it, `explain.py` writes its sentences. `check.py`
shares no code with the stages. Imports `stages` and the layers below.
"""
