"""`Bench` in `bench.py`: the same prompts under every policy, and what each costs and keeps.

It runs no `Chain`: it gives its prompts straight to the engine. Calibration measures with the same parts.
"""
