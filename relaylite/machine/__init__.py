"""Memory and cores of this machine (`resources.py`), its devices (`devices.py`), workers on other machines (`workers.py`), and the
installed llama.cpp (`installation.py`)."""
