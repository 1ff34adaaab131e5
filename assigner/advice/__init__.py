"""From what hours need to what a service should be given. Pure; read `decide.py`."""
