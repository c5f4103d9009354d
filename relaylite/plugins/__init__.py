"""`load_plugins` in `entry_points.py`: what other installed packages bring, found by entry points. docs/plugins.md is the contract."""
