"""The screens: the main one in `main`, and what lies over it, one a file."""
