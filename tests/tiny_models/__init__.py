"""Tiny random GGUF models, written at test time: every architecture that the tests name, odd templates, and damaged files."""

from .damage import ABORTING, DAMAGES, write_damaged
from .templates import TEMPLATES
from .writer import ARCHITECTURES, write_model

__all__ = ["ABORTING", "ARCHITECTURES", "DAMAGES", "TEMPLATES", "write_damaged", "write_model"]
