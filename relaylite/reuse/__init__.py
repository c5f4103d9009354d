"""`make_plan` in `planner.py`: what a prompt takes over, decided on plain values. No model, no files except profiles."""
