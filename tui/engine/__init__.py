"""The app's way to a model. The door is `EngineThread`: jobs go in, reports come out."""
