"""Methods that place partitions on a given number of tasks: from sizes to a placement. Imports `problem` and
`bounds`.

`arrangement.py` contains a placement under construction. `greedy.py` builds an initial placement,
`descent.py` (one dimension), `vector_descent.py` (two) and `ruin.py` improve a placement, `chains.py` reverts
needless moves. `columns.py` with `knapsack.py` packs large partitions, `exact.py` calls the solver and is the
only module that imports OR-Tools.
"""
