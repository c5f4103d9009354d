"""Runs the benchmarks that docs/results.md reports, and writes their tables and pictures into it.

    python benchmarks/results.py TASKS [NAME …] [--model FILE] [--threads 2]    # TASKS: folder with gsm8k.jsonl, humaneval.jsonl, mmlu.csv
    python benchmarks/results.py --only-write                                   # tables and pictures from the documents that are there

Documents go to docs/results/NAME.json; `profile` calibrates the model and keeps its profile and curve there. On a quiet machine:
whatever else runs is in the figures.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from relaylite.bench.figures import COLORS, svg
from relaylite.bench.plots import figures_of
from relaylite.bench.report import markdown

DOCS = Path(__file__).parent.parent / "docs"
FOLDER = DOCS / "results"
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
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(done.stdout, encoding="utf-8")


def calibrate(model: str, threads: str) -> None:
    files = ["--out", str(FOLDER / "profile" / "profile.json"), "--svg", str(FOLDER / "curve.svg")]
    (FOLDER / "profile").mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "relaylite", "profile", model, "--threads", threads, *files], check=True)


def write() -> None:
    """Fill in docs/results.md between `<!-- NAME -->` and `<!-- end -->`, for all documents that are there."""
    page = DOCS / "results.md"
    text = page.read_text(encoding="utf-8")
    for name in RUNS:
        file = FOLDER / f"{name}.json"
        if not file.exists():
            continue
        block = "\n".join([f"<!-- {name} -->", *_section(name, json.loads(file.read_text(encoding="utf-8"))), "<!-- end -->"])
        text = re.sub(rf"<!-- {re.escape(name)} -->.*?<!-- end -->", lambda _, block=block: block, text, flags=re.DOTALL)
    if (FOLDER / "curve.svg").exists():
        picture = "<!-- curve -->\n\n![Rows from writing against rows from a full prefill](results/curve.svg)\n\n<!-- end -->"
        text = re.sub("<!-- curve -->.*?<!-- end -->", lambda _: picture, text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")


def _section(name: str, report: dict[str, Any]) -> list[str]:
    machine, versions = report["machine"], report["versions"]
    lines = [
        "",
        f"`{report['command']}` on {machine['cpu']}, {machine['cores']} cores, llama-cpp-python {versions['llama-cpp-python']},"
        f" {report['model']['file']}: {_prompts(report)}.",
        "",
        *markdown(report["rows"]),
        "",
    ]
    if len(report["groups"]) > 1:
        for group in report["groups"]:
            lines += [f"**{group['group']}**: {_prompts(group)}.", "", *markdown(group["rows"]), ""]
    for kind, figure in figures_of(report):
        if len(figure.series) > len(COLORS):
            continue  # a table says more than dots that look alike
        picture = FOLDER / f"{name}-{kind}.svg"
        picture.write_text(svg(figure), encoding="utf-8")
        lines += [f"![{figure.title}](results/{picture.name})", ""]
    return lines


def _prompts(part: dict[str, Any]) -> str:
    tokens = f"{part['prefix_tokens']:.0f} prefix, {part['relayed_tokens']:.0f} relayed, {part['new_tokens']:.0f} new tokens"
    return f"{part['n_prompts']} prompts of {tokens} (medians)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path, nargs="?")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([PROFILE, *RUNS]))
    parser.add_argument("--model", default="default")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--only-write", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.names) - {PROFILE, *RUNS}:
        parser.error(f"unknown: {', '.join(unknown)}; known: {PROFILE}, {', '.join(RUNS)}")
    if not options.only_write:
        if options.tasks is None:
            parser.error("give the folder of the task files")
        for name in options.names or [PROFILE, *RUNS]:
            if name == PROFILE:
                calibrate(options.model, options.threads)
            else:
                run(name, options.tasks, ["-m", options.model, "--threads", options.threads])
    write()


if __name__ == "__main__":
    main()
