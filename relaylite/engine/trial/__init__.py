"""Opening a file for the first time in a process of its own, since a broken one may have llama.cpp end the process.

`hold` in `trial.py` is the door.
"""
