"""`Store`: rows that outlive a turn, found again by token ids, never beyond a budget.

Fulfils `planner.Matcher`. Rows handed out stay valid when the store drops them, as long as a segment holds them. Rows that come from disk
are checked and decoded when they are used: who finds them damaged then (`Damaged`) has the store `forget` them, and asks again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from relaylite.errors import UsageError
from relaylite.reuse.plan import Kind, Quote, Segment
from relaylite.reuse.row_loading import Damaged
from relaylite.reuse.rows import RowLayout, Rows, Tokens
from relaylite.store.codec import PLAIN, Codec
from relaylite.store.folder import DISK_BYTES, CannotWrite, RowFolder
from relaylite.store.gather import RowRange, gather
from relaylite.store.holdings import Holdings
from relaylite.store.ledger import Ledger
from relaylite.store.prefill_speed import PrefillSpeed
from relaylite.store.radix import Node
from relaylite.store.tiers import Lost, Tiers
from relaylite.store.worth import Foresight

MAX_VOCAB = 2**31


@dataclass(slots=True)
class StoreStats:
    """What a store holds, and what it was good for since it was opened.

    `spans`: nodes held; `tokens`: their tokens. `hits`: segments handed out; `hit_tokens`: their tokens; `seconds_saved`: what computing
    these would have taken, 0 while no speed is known.
    """

    spans: int = 0
    tokens: int = 0
    ram_bytes: int = 0
    disk_bytes: int = 0
    disk_budget_bytes: int = 0
    hits: int = 0
    hit_tokens: int = 0
    seconds_saved: float = 0.0


class Store:
    """Rows of one layout, in memory and, if a folder is given, on disk. May be used from several threads.

    `scope` keeps the rows of one party from all others: it is a mark that `Scope` makes of a name; "" is a scope like any other. Memory,
    disk and what is learnt of usage are one for all scopes.

    `budget_bytes` of memory; `disk_bytes` for all files in the folder, other models' too. Nothing is written before `flush`, `close`, or
    memory runs out. A disk that fails costs a line in the log, never an error: its rows are a miss. So is a file with token ids that a
    vocabulary of `n_vocab` lacks.
    """

    def __init__(
        self,
        layout: RowLayout,
        budget_bytes: int,
        *,
        folder: Path | None = None,
        disk_bytes: int = DISK_BYTES,
        codec: Codec = PLAIN,
        foresight: Foresight | None = None,
        n_vocab: int = MAX_VOCAB,
    ) -> None:
        """Raises UsageError if `codec` cannot hold such rows."""
        _check_codec(codec, layout)
        self.layout = layout
        self._lock = threading.RLock()
        self._folder = RowFolder(folder, disk_bytes) if folder is not None and disk_bytes > 0 else None
        self._foresight = foresight or Foresight()
        self._holdings = Holdings(layout)
        self._tiers = Tiers(self._holdings, self._foresight, budget_bytes, self._folder, codec, n_vocab)
        self._asked: set[Node] = set()  # nodes that were handed out since the last put
        self._hits = self._hit_tokens = 0
        self._is_counting = True
        self._entered = Ledger()  # what the ledger on disk holds of this store
        ledger = self._folder.ledger() if self._folder is not None else Ledger()
        self._foresight.learn(ledger.follows)
        self.speed = PrefillSpeed(ledger.speeds.get(layout.fingerprint, ()))

    @property
    def has_disk(self) -> bool:
        return self._folder is not None

    def put(self, rows: Rows, *, agent: str | None = None, answer: int | None = None, scope: str = "") -> None:
        """Keep `rows`. Rows that are stored already are not stored again. The arrays must not be written to afterwards.

        From now on a token counts as captured only if it has all the states that `rows` have. `agent`: whose turn has ended, by default
        their origin; "" if it was nobody's. `answer`: the position from which on the tokens are an answer (`answers`).
        Raises ValueError if the rows are of another layout.
        """
        if rows.layout != self.layout:
            raise ValueError("rows of another layout")
        with self._lock:
            self._tiers.refresh()
            if agent := rows.origin if agent is None else agent:
                self._foresight.finish_turn(agent)
            if rows.states:
                self._holdings.want(frozenset(rows.states))
            while len(rows) and not self._keep(rows, answer, scope):
                pass
            for node in self._asked:
                self._foresight.note_hit(node.uses)
            self._asked = set()
            self._holdings.tidy()

    def prefix(self, tokens: Tokens, *, exact: bool, scope: str = "") -> Segment | None:
        """The longest stored start of `tokens` as a PREFIX from position 0 on; with `exact`, its exact rows only. None if there is none."""
        with self._lock:
            self._tiers.refresh()
            while True:
                path, n = self._holdings.start_of(tokens, scope, exact=exact)
                if not n:
                    return None
                with suppress(Lost):
                    held = self._hand_out(path, 0, n)
                    return Segment(0, n, Kind.PREFIX, held.rows, held.offset)

    def spans(self, tokens: Tokens, start: int, min_length: int, quotes: Sequence[Quote] = (), *, scope: str = "") -> list[Segment]:
        """What the stored texts share with `tokens[start:]`: SPANs of at least `min_length` tokens, disjoint, ascending.

        Tokens with captured hidden states come first, then exact rows, then any; among these the longest span, among equally long
        ones those used last. Then shorter ones in `quotes`.
        """
        with self._lock:
            self._tiers.refresh()
            while True:
                found = self._holdings.overlaps(tokens, start, min_length, quotes, scope)
                with suppress(Lost):
                    held = [(overlap, self._hand_out(path, path[0].start + overlap.offset, overlap.n)) for overlap, path in found]
                    return [Segment(overlap.start, overlap.end, Kind.SPAN, part.rows, part.offset) for overlap, part in held]

    def answers(self, *, scope: str = "") -> list[tuple[Tokens, str]]:
        """The answers that are stored as such, and the origin of each; the one used last at the end."""
        with self._lock:
            self._tiers.refresh()
            return self._holdings.answers(scope)

    def prefetch(self, tokens: Tokens, *, scope: str = "") -> None:
        """Rows on disk of what `tokens` begins with are read, checked and decoded now, rather than when they are used."""
        with self._lock:
            self._tiers.refresh()
            path, _ = self._holdings.start_of(tokens, scope, exact=False)
        for node in path:
            held: list[RowRange] = []
            with self._lock, suppress(Lost):
                if self._holdings.holds(node):
                    held = self._tiers.rows([node], node.start, node.end)
            try:
                for part in held:
                    part.rows.bring()
            except Damaged as damaged:
                self.forget(damaged)

    def forget(self, damaged: Damaged) -> None:
        """Remove the file of rows that were handed out and cannot be used."""
        with self._lock:
            self._tiers.lose(damaged.name, damaged.problem)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """What is handed out inside is no hit: nobody waits for it."""
        self._is_counting = False
        try:
            yield
        finally:
            self._is_counting = True

    def flush(self) -> None:
        """Write to disk what is in memory only, and enter in its ledger what hits saved since the last time."""
        with self._lock:
            self._tiers.flush()
            speeds = {self.layout.fingerprint: self.speed.samples} if self.speed.has_news else {}
            total = Ledger(self._hits, self._hit_tokens, self._seconds_saved(self._hit_tokens), self._foresight.seen(), speeds)
            if self._folder is not None and total != self._entered:
                with suppress(CannotWrite):
                    self._folder.add_to_ledger(total.minus(self._entered))
                    self._entered = total

    def close(self) -> None:
        """As `flush`; the store can still be used."""
        self.flush()

    def clear(self) -> None:
        """Drop all rows of this layout, on disk too."""
        with self._lock:
            self._tiers.clear()
            self._asked = set()

    def stats(self, *, scope: str | None = None) -> StoreStats:
        """Of all scopes, or of one of them."""
        with self._lock:
            nodes = list(self._holdings.nodes(scope))
            hits, hit_tokens = (self._hits, self._hit_tokens) if scope is None else self._holdings.hits(scope)
            return StoreStats(
                spans=len(nodes),
                tokens=sum(len(node.tokens) for node in nodes),
                ram_bytes=sum(node.ram_bytes for node in nodes),
                disk_bytes=sum(file.n_bytes for file in {node.file for node in nodes if node.file is not None}),
                disk_budget_bytes=self._folder.budget_bytes if self._folder is not None else 0,
                hits=hits,
                hit_tokens=hit_tokens,
                seconds_saved=self._seconds_saved(hit_tokens),
            )

    def _seconds_saved(self, hit_tokens: int) -> float:
        return hit_tokens * self.speed.ms_per_token / 1000

    def _hand_out(self, path: list[Node], first: int, n: int) -> RowRange:
        """Positions `[first, first + n)` of the text of `path`. Counts as a hit. Raises Lost."""
        passed = [node for node in path if node.start < first + n]
        held = gather(self._tiers.rows(passed, first, first + n))
        self._holdings.touch(passed[-1])
        if self._is_counting:
            self._asked.update(node for node in passed if node.end > first)
            self._hits += 1
            self._hit_tokens += n
            self._holdings.note_hit(passed[-1].scope, n)
        return held

    def _keep(self, rows: Rows, answer: int | None, scope: str) -> bool:
        """False if files turned out to be lost on the way: the holdings have changed, so it must be tried again."""
        if rows.position:
            self._tiers.admit(None, rows, is_exact=False, scope=scope, answer=answer)
            return True
        try:
            last: Node | None = self._holdings.root(scope)
            for end, is_exact in ((rows.n_exact, True), (len(rows), False)):
                if last is not None:
                    last = self._extend(last, rows, end, answer if end == len(rows) else None, is_exact=is_exact)
        except Lost:
            return False
        return True

    def _extend(self, behind: Node, rows: Rows, end: int, answer: int | None, *, is_exact: bool) -> Node | None:
        """Have `rows` up to position `end` behind `behind`. Returns the node that ends there, or None if there is no room for it."""
        start = behind.end
        last, n = self._holdings.enter(behind, rows.tokens[start:end], is_exact=is_exact)
        self._tiers.renew(last, start, rows)
        self._holdings.touch(last)
        if start + n == end:
            last.answer = last.answer if answer is None else answer
            return last
        rest = rows if start + n == 0 and end == len(rows) else rows.slice(start + n, end)
        return self._tiers.admit(last, rest, is_exact=is_exact, scope=last.scope, answer=answer)


def _check_codec(codec: Codec, layout: RowLayout) -> None:
    try:
        for row_codec, sizes in ((codec.k, layout.k_bytes), (codec.v, layout.v_bytes)):
            for row_bytes in sizes:
                row_codec.encoded_bytes(row_bytes)
    except ValueError as error:
        raise UsageError(f"the store cannot keep this model's rows as {codec.name}: {error}; use plain") from error
