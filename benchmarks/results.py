"""Runs the benchmarks that docs/results.md reports.

    python benchmarks/results.py TASKS [NAME …] [--model FILE] [--threads 2]    # TASKS: folder with gsm8k.jsonl, humaneval.jsonl, mmlu.csv

Each is one command of `relaylite bench`, and its document is kept in benchmarks/measured/NAME.json. `profile` calibrates the model: its
profile is kept there too, and its curve is drawn to docs/img/curve.svg. On a quiet machine: whatever else runs is in the figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from keeping import FOLDER, keep

CURVE = Path(__file__).parents[1] / "docs" / "img" / "curve.svg"
PROFILE = "profile"
MODES = "full,prefix,naive,relay:fast,relay,relay:careful"
SPANS = "full,naive,relay:fast,relay,relay:careful"
# What the parts of the repair bring: other layers, V instead of attention, an earlier end, all tokens; the literature; rounding alone.
ABLATION = (
    "full,naive,relay,relay+lead=0,relay+lead=1,relay+l_start=3+l_det=3,relay+l_start=5+l_det=5,relay+l_start=8+l_det=8,"
    "relay+detector=value+l_start=1+l_det=2,relay+l_end=20,relay+tau=0+max_share=1,epic:32,cacheblend:0.15,random:0.15,everything,batches:64"
)

# name: task file, further arguments of `relaylite bench`; what matters most comes first
RUNS: dict[str, tuple[str, list[str]]] = {
    "gsm8k-chains": ("gsm8k.jsonl", ["--n", "30", "--no-answers", "--policies", f"{SPANS},batches:64"]),
    "gsm8k-1000": ("gsm8k.jsonl", ["--n", "8", "--relayed", "1000", "--no-answers", "--policies", SPANS]),
    "ablation": ("gsm8k.jsonl", ["--n", "12", "--agents", "plan,solve", "--no-answers", "--policies", ABLATION]),
    "lengths": (
        "gsm8k.jsonl",
        ["--n", "1", "--relayed", "128,256,512,1024,2048,4096", "--ctx", "6144", "--no-answers", "--policies", SPANS],
    ),
    "chain-of-8": (
        "gsm8k.jsonl",
        ["--n", "1", "--agents", "plan,solve,check,solve,check,solve,check,explain", "--no-answers", "--policies", MODES],
    ),
    "cold": ("gsm8k.jsonl", ["--n", "5", "--cold", "--no-answers", "--policies", MODES]),
    "gsm8k-answers": ("gsm8k.jsonl", ["--n", "16", "--policies", MODES]),
    "humaneval-answers": ("humaneval.jsonl", ["--n", "10", "--execute", "--policies", MODES]),
    "mmlu-answers": ("mmlu.csv", ["--n", "24", "--policies", MODES]),
}


def run(name: str, tasks: Path, common: list[str]) -> None:
    file, arguments = RUNS[name]
    command = [sys.executable, "-m", "relaylite", "bench", "--tasks", str(tasks / file), *arguments, *common, "--json"]
    print(name, "…", flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name} failed with {done.returncode}")
    keep(name, json.loads(done.stdout))


def calibrate(model: str, threads: str) -> None:
    files = ["--out", str(FOLDER / f"{PROFILE}.json"), "--svg", str(CURVE)]
    subprocess.run([sys.executable, "-m", "relaylite", "profile", model, "--threads", threads, *files], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([PROFILE, *RUNS]))
    parser.add_argument("--model", default="default")
    parser.add_argument("--threads", default="2")
    options = parser.parse_args()
    if unknown := set(options.names) - {PROFILE, *RUNS}:
        parser.error(f"unknown: {', '.join(unknown)}; known: {PROFILE}, {', '.join(RUNS)}")
    for name in options.names or [PROFILE, *RUNS]:
        if name == PROFILE:
            calibrate(options.model, options.threads)
        else:
            run(name, options.tasks, ["-m", options.model, "--threads", options.threads])


if __name__ == "__main__":
    main()
