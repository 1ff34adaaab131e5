"""How a command finds a service and proves who calls. Nothing here imports pydantic or a wing's settings,
which take ten times as long as most calls: start with `quick.py`."""
