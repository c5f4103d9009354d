"""`Store` in `store.py`: rows that outlive a turn, found again by token ids, kept within budgets in memory and on disk.

    Store             the door: one thread at a time, counts what is handed out (Ledger, PrefillSpeed)
    ├─ Holdings       what there is, and what a prompt shares with it
    │  ├─ RadixTree   texts by what they begin with
    │  └─ Texts       texts as a whole; OverlapIndex finds shared tokens in them, Gaps settles which are taken
    └─ Tiers          where rows are: in memory or on disk, within both budgets; Foresight says what is worth keeping
       └─ RowFolder   files in a folder that other processes use too
          └─ RowFile  one file, in the format of a Codec

A layer calls only the next one below it; `Store` and `Tiers` share the same `Holdings` and `Foresight`.
"""

from relaylite.store.store import Store

__all__ = ["Store"]
