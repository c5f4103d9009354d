"""AutoGen: a round robin of two agents."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient
from task import BASE_URL, KEY, MAX_TOKENS, MODEL, READER, TASK, WRITER

INFO = {"vision": False, "function_calling": False, "json_output": False, "family": "unknown", "structured_output": False}


def client(max_tokens: int) -> OpenAIChatCompletionClient:
    return OpenAIChatCompletionClient(model=MODEL, base_url=BASE_URL, api_key=KEY, model_info=INFO, max_tokens=max_tokens, temperature=0)


async def main() -> None:
    writer = AssistantAgent("planner", client(MAX_TOKENS), system_message=WRITER)
    reader = AssistantAgent("reviewer", client(40), system_message=READER)
    team = RoundRobinGroupChat([writer, reader], termination_condition=MaxMessageTermination(3))
    print((await team.run(task=TASK)).messages[-1].content)


asyncio.run(main())
