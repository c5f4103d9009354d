"""One use of the engine at a time: who may use it, a plan carried out, a turn measured. `Runner` in `runner.py` is the door."""
