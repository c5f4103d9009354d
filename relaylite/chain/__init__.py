"""`Chain` in `chain.py`: agents, their turns, the conversation, and who may use the engine.

`chain` decides who answers next, `turn` drives one answer, `runner` lends the engine to one run at a time. `conversation` holds what was
said, `agent_prompts` makes each agent's prompt of it. `settling` computes in idle time what was taken over with loss. `transcript` is the
JSON form of a conversation, `sessions` the folder of saved ones.
"""
