"""`make_plan` in `planner.py`: what a prompt takes over, as plain values: policies, plans, rows, profiles. No model, no files except
profiles."""
