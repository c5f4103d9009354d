"""Aider in architect mode: the architect's answer is the whole message of the editor."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from task import BASE_URL, KEY, MAX_TOKENS, MODEL

folder = Path(tempfile.mkdtemp())
(folder / "sort.py").write_text("def merge(a, b):\n    return sorted(a + b)\n", encoding="utf-8")
settings = [{"name": f"openai/{MODEL}", "extra_params": {"max_tokens": MAX_TOKENS, "stop": ["\n\n"]}}]  # an answer that is cut ends it
(folder / ".aider.model.settings.yml").write_text(json.dumps(settings), encoding="utf-8")
environ = {**os.environ, "OPENAI_API_BASE": BASE_URL, "OPENAI_API_KEY": KEY, "HOME": str(folder), "AIDER_ANALYTICS": "false"}
command = [str(Path(sys.executable).parent / "aider"), "--architect", "--model", f"openai/{MODEL}", "--editor-model", f"openai/{MODEL}"]
flags = ["--yes-always", "--no-git", "--no-show-model-warnings", "--no-check-update", "--map-tokens", "0", "--no-pretty"]
message = ["--message", "Make merge run in linear time, and say in full sentences why it does.", "sort.py"]
print(subprocess.run([*command, *flags, *message], cwd=folder, env=environ, capture_output=True, text=True, check=True).stdout)
