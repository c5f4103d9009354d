"""smolagents: the messages of its model class, with content as lists of parts, as its agents send them."""

from smolagents import ChatMessage, MessageRole, OpenAIModel
from task import BASE_URL, KEY, MAX_TOKENS, MODEL, READER, TASK, WRITER


def ask(system: str, text: str, max_tokens: int) -> str:
    model = OpenAIModel(model_id=MODEL, api_base=BASE_URL, api_key=KEY, max_tokens=max_tokens, temperature=0)
    said = ((MessageRole.SYSTEM, system), (MessageRole.USER, text))
    messages = [ChatMessage(role=role, content=[{"type": "text", "text": each}]) for role, each in said]
    return model.generate(messages, stop_sequences=["Observation:", "<end_code>"]).content


plan = ask(WRITER, TASK, MAX_TOKENS)
print(ask(READER, f"New task:\n{plan}\nReview this plan.", 40))
