"""How far the estimate of a full prefill lies from what is measured, at several lengths, as a session's samples come in.

python benchmarks/estimates.py [--model MODEL] [--threads N] [--lengths 128,512,1024,2048,3072] [--rounds 2]

Before each full prefill it is estimated from those that ran before: first the shortest, so that the longer ones are extrapolated; in the
later rounds from all lengths, with the order turned each time. The machine may be busy: that is what the error is for.
"""

from __future__ import annotations

from opened import opened, parser_of, prefilled, random_tokens

from relaylite.store.prefill_speed import PrefillSpeed


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--lengths", default="128,512,1024,2048,3072")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    lengths = [int(text) for text in options.lengths.split(",")]
    speed = PrefillSpeed()
    errors: list[list[float]] = []
    n_within = 0
    with opened(options.model, max(lengths) + 64, options.threads) as engine:
        tokens = random_tokens(engine, max(lengths))
        for number in range(options.rounds):
            errors.append([])
            for length in lengths if number % 2 == 0 else lengths[::-1]:
                estimate = speed.estimate(0, length)
                ms = prefilled(engine, tokens[:length]).suffix_ms
                speed.learn(0, length, ms)
                if not estimate.ms:
                    continue
                errors[-1].append(estimate.ms / ms - 1)
                n_within += estimate.low_ms <= ms <= estimate.high_ms
                print(
                    f"round {number}, {length:5} tokens: measured {ms:8.0f} ms, estimated {estimate.ms:8.0f} ms "
                    f"({errors[-1][-1]:+.0%}), {estimate.low_ms:.0f} to {estimate.high_ms:.0f} ms",
                    flush=True,
                )
    for number, found in enumerate(errors):
        print(f"round {number}: largest error {max(map(abs, found)):.0%}, {sum(abs(e) <= 0.25 for e in found)} of {len(found)} within 25 %")
    print(f"{n_within} of {sum(map(len, errors))} within low and high")


if __name__ == "__main__":
    main()
