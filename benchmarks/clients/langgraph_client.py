"""LangGraph: planner and reviewer on one state of messages. Its supervisor needs tools, which the server refuses so far."""

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from task import BASE_URL, KEY, MAX_TOKENS, MODEL, READER, TASK, WRITER


def node(system: str, max_tokens: int):
    llm = ChatOpenAI(model=MODEL, base_url=BASE_URL, api_key=KEY, max_tokens=max_tokens, temperature=0)
    return lambda state: {"messages": [llm.invoke([SystemMessage(system), *state["messages"]])]}


def ask_for_review(state: MessagesState) -> dict[str, list[HumanMessage]]:
    return {"messages": [HumanMessage("Review this plan.")]}


graph = StateGraph(MessagesState)
for name, each in (("planner", node(WRITER, MAX_TOKENS)), ("ask", ask_for_review), ("reviewer", node(READER, 40))):
    graph.add_node(name, each)
for edge in ((START, "planner"), ("planner", "ask"), ("ask", "reviewer"), ("reviewer", END)):
    graph.add_edge(*edge)
print(graph.compile().invoke({"messages": [HumanMessage(TASK)]})["messages"][-1].content)
