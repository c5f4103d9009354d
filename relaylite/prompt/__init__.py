"""`PromptBuilder` in `builder.py`: from messages to token ids; answers are spliced in by their ids.

`messages`: what is said, as values. `template`: the model's chat template, applied to messages; `sandbox` runs it, `outline` and
`alignment` find out what it did to the bodies. `builder`: tokens, with the ids of earlier answers spliced in. `tokenizer`: what is asked
of a vocabulary.
"""
