"""Plans that the assigner returns, and the verifier that checks every plan.

`placement_answer.py` defines the plan, `assemble.py` builds it, `explain.py` writes its sentences. `check.py`
shares no code with the stages. Imports `stages` and the layers below.
"""
