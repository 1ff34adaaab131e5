"""What the leader knows of the loads: observations, the newest answers, and how old they are."""
