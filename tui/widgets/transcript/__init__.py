"""The left column: the conversation as blocks. The door is `Transcript`."""
