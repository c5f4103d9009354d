"""A chain of three agents on the default model, from a script: first as a whole, then token by token."""

from relaylite import Agent, Relay
from relaylite.events import PrefillDone, TextDelta

with Relay(sampling={"max_tokens": 120}) as relay:  # a path, a catalogue name or hf:owner/repo/file.gguf goes here
    result = relay.chain(["plan", "code", "review"]).run("Write a function that merges two sorted lists.")
    for turn in result.turns:
        print(f"--- {turn.agent}: {turn.metrics.span_tokens} tokens relayed, first token after {turn.metrics.ttft_ms:.0f} ms")
        print(turn.text)

    poet = Agent("poet", "Answer in two short lines.", sampling={"temperature": 0.8, "seed": 7})
    chain = relay.chain([poet, "critic"])
    for event in chain.stream("Describe a cache."):
        match event:
            case PrefillDone(agent=name, metrics=metrics):
                print(f"\n--- {name}: {metrics.prompt_reuse:.0%} of its prompt taken over")
            case TextDelta(text=text):
                print(text, end="", flush=True)
    print()
