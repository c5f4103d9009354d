"""OpenAI Agents SDK, on chat completions: the reviewer gets the planner's items as its history."""

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI
from task import BASE_URL, KEY, MAX_TOKENS, MODEL, READER, TASK, WRITER

set_tracing_disabled(True)
model = OpenAIChatCompletionsModel(model=MODEL, openai_client=AsyncOpenAI(base_url=BASE_URL, api_key=KEY))
writer = Agent(name="planner", instructions=WRITER, model=model, model_settings=ModelSettings(max_tokens=MAX_TOKENS, temperature=0))
reader = Agent(name="reviewer", instructions=READER, model=model, model_settings=ModelSettings(max_tokens=40, temperature=0))
planned = Runner.run_sync(writer, TASK)
asked = [*planned.to_input_list(), {"role": "user", "content": "Review this plan."}]
print(Runner.run_sync(reader, asked).final_output)
