"""CrewAI: two tasks, the second one has the first one's answer as its context."""

import os

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import LLM, Agent, Crew, Task
from task import BASE_URL, KEY, MAX_TOKENS, MODEL, READER, TASK, WRITER


def agent(role: str, story: str, max_tokens: int) -> Agent:
    llm = LLM(model=f"openai/{MODEL}", base_url=BASE_URL, api_key=KEY, max_tokens=max_tokens, temperature=0)
    return Agent(role=role, goal="do the task well", backstory=story, llm=llm, allow_delegation=False, max_iter=1)


writer, reader = agent("planner", WRITER, MAX_TOKENS), agent("reviewer", READER, 40)
plan = Task(description=TASK, expected_output="a plan", agent=writer)
review = Task(description="Review this plan.", expected_output="three weak points", agent=reader, context=[plan])
print(Crew(agents=[writer, reader], tasks=[plan, review]).kickoff().raw)
