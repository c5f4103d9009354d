"""`Store` in `store.py`: rows that outlive a turn, in memory and on disk within two budgets, found again by token ids.

    Store             the door: takes one lock, counts what is handed out (Ledger, PrefillSpeed)
    ├─ Holdings       what there is, and what a prompt shares with it
    │  ├─ RadixTree   texts by what they begin with
    │  └─ Texts       texts as a whole; OverlapIndex finds shared tokens in them, Gaps settles which are taken
    └─ Tiers          where rows are: in memory or on disk, within both budgets; Foresight says what is worth keeping
       └─ RowFolder   files in a folder that other processes use too
          └─ RowFile  one file, in the format of a Codec

A module uses only modules below it, and none reaches through another (tests/store/test_layers.py). `Store` and `Tiers` share the same
`Holdings` and `Foresight`. Two calls skip a layer: `Store` keeps its Ledger in `RowFolder`, and `Holdings` reads the tokens, captured
states and headers of a `RowFile`, but never its rows.
"""

from relaylite.store.scope import Scope
from relaylite.store.store import Store

__all__ = ["Scope", "Store"]
