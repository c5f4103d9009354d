"""What this machine offers: memory and cores (`resources.py`), devices (`devices.py`), and workers on other machines (`workers.py`)."""
