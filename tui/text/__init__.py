"""Figures, Markdown and search hits as text and lines; no widgets. No one door: each module has one thing to do."""
