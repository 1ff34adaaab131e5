"""State machine shared by the coordination stores in a file and in Kafka. Pure.

`machine.py` applies a command to a state, and returns the next state and a result. Replicas that apply the
same commands have equal states. `codec.py` encodes commands and states. `session.py` implements
`ports.NodeStore` on any command log. Imports ports, model and errors.
"""
