"""`Calibration` in `calibration.py`: which parameters repair one model best, measured on chains of its own. `relaylite profile` runs it."""
