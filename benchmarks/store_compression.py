"""What smaller codecs of stored rows cost: bytes, perplexity, and the time to make and to read them.

    python benchmarks/store_compression.py TEXT [--model MODEL] [--chunks 8] [--context 384] [--follow 256] [--threads N]

Of every chunk of the text file the first tokens become rows, stored and read back by each codec; the following tokens are then scored
behind them. Prints perplexity against rows as they are.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relaylite.engine.engine import Engine, EngineOptions
from relaylite.gguf.catalog import resolve_model
from relaylite.reuse.plan import Kind, Plan, Segment
from relaylite.reuse.policies import FULL, PREFIX
from relaylite.reuse.rows import Rows
from relaylite.store.codec import CODECS, Codec


@dataclass
class Cost:
    n_bytes: int = 0
    surprise: float = 0.0  # nats, summed over tokens
    encode_s: float = 0.0
    decode_s: float = 0.0


def stored(rows: Rows, codec: Codec, cost: Cost) -> Rows:
    """`rows` as they come back from a file of this codec."""
    layers, encoded = range(rows.layout.n_layer), []
    start = time.perf_counter()
    for row_codec, of in ((codec.k, rows.k), (codec.v, rows.v)):
        encoded += [(row_codec, row_codec.encode(of(il)), of(il).shape[1]) for il in layers]
    middle = time.perf_counter()
    data = np.concatenate([row_codec.decode(small, width).ravel() for row_codec, small, width in encoded])
    cost.encode_s += middle - start
    cost.decode_s += time.perf_counter() - middle
    cost.n_bytes += sum(small.nbytes for _, small, _ in encoded)
    return Rows(rows.tokens, 0, len(rows), data, rows.layout)


def surprise(engine: Engine, rows: Rows, tokens: np.ndarray) -> float:
    """Nats of `tokens[len(rows) + 1 :]` behind `rows`; the token between gives the first logits."""
    n = len(rows)
    prompt = tokens[: n + 1]
    segments = (Segment(0, n, Kind.PREFIX, rows), Segment(n, n + 1, Kind.NEW))
    engine.use(engine.profile)  # empties the live sequence, of which the engine would keep what the prompt begins with
    engine.prefill(Plan(prompt, segments, PREFIX), lambda phase: None)
    logits = np.concatenate([engine.logits()[None], engine.follow(tokens[n + 1 : -1].tolist())]).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    wanted = logits[np.arange(len(logits)), tokens[n + 1 :]]
    return float((np.log(np.exp(logits).sum(axis=1)) - wanted).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--context", type=int, default=384)
    parser.add_argument("--follow", type=int, default=256)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()

    size = options.context + options.follow
    engine = Engine.open(resolve_model(options.model), EngineOptions(n_ctx=size + 64, n_threads=options.threads))
    tokens = np.array(engine.tokenizer.tokenize(options.text.read_text(encoding="utf-8"), parse_special=False), np.int32)
    costs = {name: Cost() for name in CODECS}
    n_chunks = min(options.chunks, len(tokens) // size)
    for chunk in tokens[: n_chunks * size].reshape(n_chunks, size):
        context = chunk[: options.context]
        engine.prefill(Plan(context, (Segment(0, len(context), Kind.NEW),), FULL), lambda phase: None)
        rows = engine.harvest("")
        for name, codec in CODECS.items():
            costs[name].surprise += surprise(engine, stored(rows, codec, costs[name]), chunk)
            print(f"\r{name:6}", end="", file=sys.stderr, flush=True)
    n_scored = n_chunks * (options.follow - 1)
    plain = costs["plain"]
    print(f"\r{engine.info.name}: {n_chunks} chunks, {n_scored} tokens scored, perplexity {np.exp(plain.surprise / n_scored):.3f}")
    print("codec   smaller  perplexity  write ms/1k  read ms/1k")
    for name, cost in costs.items():
        worse = np.exp((cost.surprise - plain.surprise) / n_scored) - 1
        per_1k = 1e6 / (n_chunks * options.context)
        print(f"{name:7} {plain.n_bytes / cost.n_bytes:6.2f}x {worse:+10.2%} {cost.encode_s * per_1k:12.0f} {cost.decode_s * per_1k:11.0f}")
    engine.close()


if __name__ == "__main__":
    main()
