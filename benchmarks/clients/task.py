"""What every client program here does: one agent writes a plan, another one reads it. `BASE_URL` ends in /v1."""

from __future__ import annotations

import os

BASE_URL = os.environ.get("BASE_URL", "http://127.0.0.1:8080/v1")
MODEL = os.environ.get("MODEL", "local")
KEY = "none"
MAX_TOKENS = int(os.environ.get("MAX_TOKENS", "350"))
TASK = "Plan a small vegetable garden for a family of four: beds, plants, watering, and what to do in each month of the year."
WRITER = "You are a planner. You write long and detailed plans in full sentences."
READER = "You are a reviewer. You read a plan and name its three weakest points, briefly."
