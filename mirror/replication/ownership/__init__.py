"""Who may write for a lane and from where: positions, producer ids, transactions, checkpoints."""
