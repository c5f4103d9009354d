"""`Store` in `store.py`: rows that outlive a turn, in memory and on disk within two budgets, found again by token ids.

    Store             the door: takes one lock, counts what is handed out (Ledger, PrefillSpeed)
    ├─ Holdings       what there is, and what a prompt shares with it
    │  ├─ RadixTree   texts by what they begin with
    │  └─ Texts       texts as a whole; OverlapIndex finds shared tokens in them, Gaps settles which are taken
    └─ Tiers          where rows are: in memory or on disk, within both budgets; Foresight says what is worth keeping
       └─ RowFolder   files in a folder that other processes use too
          └─ RowFile  one file, in the format of a Codec

A layer calls the next one below it. `Store` and `Tiers` share the same `Holdings`, `Foresight` and `RowFolder` (`Store` keeps its ledger
there), and `Holdings` reads header and token ids of a `RowFile`.
"""

from relaylite.store.store import Store

__all__ = ["Store"]
