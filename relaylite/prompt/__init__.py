"""`PromptBuilder` in `builder.py`: from messages to token ids, with the ids of earlier answers spliced in."""
