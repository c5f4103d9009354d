"""What this machine offers: memory and cores (`resources.py`), devices (`devices.py`), workers on other machines (`workers.py`), and the
installed llama.cpp (`installation.py`)."""
