"""Commands for pairs of clusters, below `headrace dr`."""
