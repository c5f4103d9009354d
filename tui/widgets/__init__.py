"""The parts of the main screen, one a file."""
