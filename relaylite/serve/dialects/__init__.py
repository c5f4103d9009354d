"""The routes that answer: each module is one form of request and answer, on the same exchange."""
