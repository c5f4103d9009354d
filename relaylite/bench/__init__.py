"""`Bench` in `bench.py`: the same prompts under every policy, and what each costs and keeps.

Calibration measures with the same parts.
"""
