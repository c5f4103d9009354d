"""Tiny random GGUF models, written at test time: every architecture that the tests name, and damaged files."""

from .table import TABLE
from .templates import TEMPLATES
from .writer import ARCHITECTURES, write_model

__all__ = ["ARCHITECTURES", "TABLE", "TEMPLATES", "write_model"]
