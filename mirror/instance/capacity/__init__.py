"""How the capacity of tasks is learned: what instances note of their workers, and what a plan makes of it."""
