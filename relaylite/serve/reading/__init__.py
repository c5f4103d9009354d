"""From the fields of a body to the values of a `CompletionRequest`; what several dialects share."""
