"""From the events of a completion to the parts of an answer that several dialects share."""
