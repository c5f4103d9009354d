"""`Engine` in `engine.py`: one model with one live sequence: places a plan, repairs rows, samples, reads rows back.
`interface.py` says what a chain asks of it."""
