"""`Store` in `store.py`: rows that outlive a turn, matched by token ids, kept within budgets in memory and on disk."""

from relaylite.store.store import Store

__all__ = ["Store"]
