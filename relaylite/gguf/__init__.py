"""`resolve_model` in `catalog.py`: from what `--model` names to a GGUF file that was checked before llama.cpp sees it."""
