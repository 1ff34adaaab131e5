"""What any instance answers for all: the shared state, also while ZooKeeper is away, and what the other
instances say of themselves. May import `api.services` and mirror. Read `reads.py` and `questions.py`.
"""
