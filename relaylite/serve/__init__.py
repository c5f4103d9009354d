"""`create_app` in `app.py`: the HTTP side of `relaylite serve`, for clients of OpenAI, Anthropic and llama-server."""
