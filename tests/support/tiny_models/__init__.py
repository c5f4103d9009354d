"""Tiny random GGUF models, written at test time: every architecture that the tests name, odd templates, and damaged files."""

from .adapter import write_adapter
from .damage import ABORTING, DAMAGES, write_damaged
from .templates import TEMPLATES
from .writer import ARCHITECTURES, write_model

__all__ = ["ABORTING", "ARCHITECTURES", "DAMAGES", "TEMPLATES", "write_adapter", "write_damaged", "write_model"]
