"""Methods that place partitions of given sizes on a given number of tasks. Imports `problem` and `bounds`.

`arrangement.py` contains the placement that these methods change. `greedy.py` builds an initial placement,
`descent.py` (one dimension) and `vector_descent.py` (two) improve a placement, `chains.py` reverts needless
moves. `columns.py` packs large partitions, `exact.py` calls the solver and is the only module that imports
OR-Tools.
"""
