"""llm, the command: the plan is piped into a second call. It streams."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from task import BASE_URL, KEY, MAX_TOKENS, MODEL, READER, TASK, WRITER

folder = Path(tempfile.mkdtemp())
(folder / "extra-openai-models.yaml").write_text(f"- model_id: here\n  model_name: {MODEL}\n  api_base: {BASE_URL}\n", encoding="utf-8")


def ask(system: str, prompt: str, max_tokens: int, text: str) -> str:
    command = [str(Path(sys.executable).parent / "llm"), "-m", "here", "--key", KEY, "-s", system, "-o", "max_tokens", str(max_tokens)]
    environ = {**os.environ, "LLM_USER_PATH": str(folder)}
    more = ["-o", "temperature", "0", prompt]
    return subprocess.run([*command, *more], input=text, env=environ, capture_output=True, text=True, check=True).stdout


plan = ask(WRITER, TASK, MAX_TOKENS, "")
print(ask(READER, "Review this plan.", 40, plan))
