"""curl: what a shell script would send."""

import json
import subprocess

from task import BASE_URL, MAX_TOKENS, MODEL, READER, TASK, WRITER


def ask(system: str, text: str, max_tokens: int) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    body = json.dumps({"model": MODEL, "messages": messages, "max_tokens": max_tokens, "temperature": 0})
    command = ["curl", "-sf", f"{BASE_URL}/chat/completions", "-H", "Content-Type: application/json", "-d", body]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["choices"][0]["message"]["content"]


print(ask(READER, f"Review this plan.\n\n{ask(WRITER, TASK, MAX_TOKENS)}", 40))
