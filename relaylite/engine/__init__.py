"""`Engine` in `engine.py`: one model with one live sequence. `interface.py` says what a chain asks of it."""
