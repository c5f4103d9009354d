"""What lies over the main screen, one a file."""
