"""How long the store takes to find the runs that a prompt shares with all stored texts.

    python benchmarks/store_match.py [--stored 1000000] [--prompt 8000] [--repeat 20]

The stored texts are drawn with word frequencies like those of language (Zipf), the prompt quotes some of them. Prints milliseconds of
matching (the index) and of the whole call (index, choice, rows): best, median and worst.
"""

from __future__ import annotations

import numpy as np
from opened import plain_parser_of, timed_ms

from relaylite.bench.statistics import spread
from relaylite.reuse.overlaps import OverlapIndex, window_for
from relaylite.reuse.rows import RowLayout, Rows
from relaylite.store import Store

MIN_LENGTH = 32
LAYOUT = RowLayout(k_bytes=(1,), v_bytes=(1,), fingerprint="benchmark")


def text(rng: np.random.Generator, n: int) -> np.ndarray:
    return (rng.zipf(1.2, n) % 50_000).astype(np.int32)


def prompt_of(rng: np.random.Generator, texts: list[np.ndarray], n: int) -> np.ndarray:
    """Passages of 200 stored tokens between 50 new ones."""
    pieces: list[np.ndarray] = []
    while sum(map(len, pieces)) < n:
        source = texts[rng.integers(len(texts))]
        start = rng.integers(len(source) - 200)
        pieces += [source[start : start + 200], text(rng, 50)]
    return np.concatenate(pieces)[:n]


def main() -> None:
    parser = plain_parser_of(__doc__)
    parser.add_argument("--stored", type=int, default=1_000_000)
    parser.add_argument("--prompt", type=int, default=8_000)
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    task = text(rng, 300)  # stands in every text, as a task does in every agent's prompt
    texts = [np.concatenate([text(rng, 100), task, text(rng, 600)]) for _ in range(options.stored // 1000)]
    prompt = np.concatenate([task, prompt_of(rng, texts, options.prompt - len(task))])

    index, store = OverlapIndex(window_for(MIN_LENGTH)), Store(LAYOUT, 1 << 30)
    store.spans(prompt, 0, MIN_LENGTH)  # has the store build its index as texts come in
    spent = []
    for key, tokens in enumerate(texts):
        index.add(key, tokens)
        rows = Rows(tokens, 0, len(tokens), np.zeros(len(tokens) * LAYOUT.token_bytes, np.uint8), LAYOUT)
        spent.append(timed_ms(lambda rows=rows: store.put(rows)))  # type: ignore[misc]
    found = store.spans(prompt, 0, MIN_LENGTH)
    print(f"{sum(map(len, texts)):,} stored tokens in {len(texts):,} texts, a prompt of {len(prompt):,} tokens")
    print(f"found: {len(found)} spans, {sum(map(len, found)):,} tokens")
    for name, times in {
        "match ": [timed_ms(lambda: index.find(prompt, MIN_LENGTH)) for _ in range(options.repeat)],
        "spans ": [timed_ms(lambda: store.spans(prompt, 0, MIN_LENGTH)) for _ in range(options.repeat)],
        "put   ": spent,
    }.items():
        print(f"{name} {min(times):7.2f} ms best, {spread(times).median:7.2f} ms median, {max(times):7.2f} ms worst")


if __name__ == "__main__":
    main()
