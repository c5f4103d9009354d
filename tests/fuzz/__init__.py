"""Fuzzers: each is a function that takes a random generator, does many random things to the real code, and checks what must hold.

`python tests/fuzz --help` runs them for minutes, `test_fuzz.py` a few episodes of each. An episode is known by its seed.
"""
