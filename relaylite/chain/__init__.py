"""`Chain` in `chain.py`: agents that answer in turn on one engine, and the conversation that grows from it."""
