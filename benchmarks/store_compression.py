"""What smaller codecs of stored rows cost: bytes, perplexity, and the time to make and to read them.

    python benchmarks/store_compression.py TEXT [--model MODEL] [--chunks 8] [--context 384] [--follow 256] [--threads N]

Of every chunk of the text file the first tokens become rows, stored and read back by each codec; the following tokens are then scored
behind them. Prints perplexity against rows as they are.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from opened import opened, parser_of, prefilled

from relaylite.engine.engine import Engine
from relaylite.metrics import Stopwatch
from relaylite.reuse.plan import Kind, Plan, Segment
from relaylite.reuse.policies import PREFIX
from relaylite.reuse.rows import Rows
from relaylite.store.codec import CODECS, Codec


@dataclass
class Cost:
    n_bytes: int = 0
    surprise: float = 0.0  # nats, summed over tokens
    encode_ms: float = 0.0
    decode_ms: float = 0.0


def stored(rows: Rows, codec: Codec, cost: Cost) -> Rows:
    """`rows` as they come back from a file of this codec."""
    layers, encoded = range(rows.layout.n_layer), []
    watch = Stopwatch()
    for form, of in ((codec.k, rows.k), (codec.v, rows.v)):
        encoded += [(form, form.encode(of(il)), of(il).shape[1]) for il in layers]
    cost.encode_ms += watch.lap_ms()
    data = np.concatenate([form.decode(small, width).ravel() for form, small, width in encoded])
    cost.decode_ms += watch.lap_ms()
    cost.n_bytes += sum(small.nbytes for _, small, _ in encoded)
    return Rows(rows.tokens, 0, len(rows), data, rows.layout)


def surprise(engine: Engine, rows: Rows, tokens: np.ndarray) -> float:
    """Nats of `tokens[len(rows) + 1 :]` behind `rows`; the token between gives the first logits."""
    n = len(rows)
    prompt = tokens[: n + 1]
    segments = (Segment(0, n, Kind.PREFIX, rows), Segment(n, n + 1, Kind.NEW))
    engine.configure(engine.profile)  # empties the live sequence, of which the engine would keep what the prompt begins with
    engine.prefill(Plan(prompt, segments, PREFIX), lambda phase: None)
    logits = np.concatenate([engine.logits()[None], engine.force(tokens[n + 1 : -1].tolist())]).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    wanted = logits[np.arange(len(logits)), tokens[n + 1 :]]
    return float((np.log(np.exp(logits).sum(axis=1)) - wanted).sum())


def costs_of(engine: Engine, chunks: np.ndarray, n_context: int) -> dict[str, Cost]:
    """By form, summed over the chunks."""
    costs = {name: Cost() for name in CODECS}
    for chunk in chunks:
        prefilled(engine, chunk[:n_context])
        rows = engine.harvest("")
        for name, codec in CODECS.items():
            costs[name].surprise += surprise(engine, stored(rows, codec, costs[name]), chunk)
            print(f"\r{name:6}", end="", file=sys.stderr, flush=True)
    return costs


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--context", type=int, default=384)
    parser.add_argument("--follow", type=int, default=256)
    options = parser.parse_args()
    size = options.context + options.follow
    with opened(options.model, size + 64, options.threads) as engine:
        tokens = np.array(engine.tokenizer.tokenize(options.text.read_text(encoding="utf-8"), parse_special=False), np.int32)
        n_chunks = min(options.chunks, len(tokens) // size)
        costs = costs_of(engine, tokens[: n_chunks * size].reshape(n_chunks, size), options.context)
        name = engine.info.name
    n_scored, plain = n_chunks * (options.follow - 1), costs["plain"]
    print(f"\r{name}: {n_chunks} chunks, {n_scored} tokens scored, perplexity {np.exp(plain.surprise / n_scored):.3f}")
    print("form    smaller  perplexity  write ms/1k  read ms/1k")
    per_1k = 1e3 / (n_chunks * options.context)
    for form, cost in costs.items():
        worse = np.exp((cost.surprise - plain.surprise) / n_scored) - 1
        times = f"{cost.encode_ms * per_1k:12.0f} {cost.decode_ms * per_1k:11.0f}"
        print(f"{form:7} {plain.n_bytes / cost.n_bytes:6.2f}x {worse:+10.2%} {times}")


if __name__ == "__main__":
    main()
