"""openai-python, used by hand: the plan goes into the reviewer's message."""

from openai import OpenAI
from task import BASE_URL, KEY, MAX_TOKENS, MODEL, READER, TASK, WRITER


def ask(system: str, text: str, max_tokens: int) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    answer = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=max_tokens, temperature=0)
    return answer.choices[0].message.content or ""


client = OpenAI(base_url=BASE_URL, api_key=KEY)
plan = ask(WRITER, TASK, MAX_TOKENS)
print(ask(READER, f"Review this plan.\n\n{plan}", 40))
