"""`load_settings` in `settings.py`: every setting, its value and where that came from."""
