"""pydantic-ai: two agents, the second one is given the first one's output."""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from task import BASE_URL, KEY, MAX_TOKENS, MODEL, READER, TASK, WRITER

model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=BASE_URL, api_key=KEY))
writer = Agent(model, system_prompt=WRITER, model_settings={"max_tokens": MAX_TOKENS, "temperature": 0.0})
reader = Agent(model, system_prompt=READER, model_settings={"max_tokens": 40, "temperature": 0.0})
plan = writer.run_sync(TASK).output
print(reader.run_sync(f"Review this plan.\n\n{plan}").output)
