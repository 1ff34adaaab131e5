"""Ways to place partitions on a given number of tasks: sizes in, a placement out. Imports `problem` and
`bounds`.

`arrangement.py` holds a placement under construction. `greedy.py` makes a first one, `descent.py` (one
dimension), `vector_descent.py` (two) and `ruin.py` improve it, `chains.py` brings back what need not have
moved. `columns.py` with `knapsack.py` packs large partitions, `exact.py` asks the solver and is the only
module that imports OR-Tools.
"""
