"""Scripts that travel in the zip and need only Python: `room_check` (is this machine ready?), `planner` (how many
machines, how much network?), `install` (the environment and the data) and `start` (JupyterLab).
"""
