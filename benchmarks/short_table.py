"""The time to the first token at each length of relayed text, from a document of `relaylite bench --relayed … --json`, as a short table.

    python benchmarks/short_table.py FILE

Medians over the prompts of a length; × is how much sooner than a full prefill, paired by prompt; relay loss is what is left of the loss of
moving rows without repair, in the mean over the tokens behind the prompt.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from relaylite.bench.methods import AGAIN
from relaylite.reuse.policies import FULL


def lines(document: dict[str, Any]) -> list[str]:
    """Markdown, a row for each length; one line that says why, where nothing was measured."""
    if not document.get("groups"):
        return [f"nothing was measured: {document.get('error') or 'no prompt held relayed text'}"]
    policies = [row["policy"] for row in document["rows"] if row["policy"] != AGAIN.label]
    head = ["relayed", "prompts", "prompt tokens", *(f"{policy} ms" + " (×)" * (policy != FULL.label) for policy in policies), "relay loss"]
    table = [_line(head), _line(["---"] * len(head))]
    for group in document["groups"]:
        rows = {row["policy"]: row for row in group["rows"]}
        counts = [f"{group['relayed_tokens']:.0f}", str(group["n_prompts"]), f"{group['prompt_tokens']:.0f}"]
        table.append(_line([*counts, *(_time(rows[policy]) for policy in policies), _loss(rows.get("relay"))]))
    ended = [f"ended early: {document['error']}"] if document.get("error") else []
    return [f"{document['model']['name']}, {document['machine']['cpu']}, median time to the first token", "", *table, *ended]


def _time(row: dict[str, Any]) -> str:
    return f"{row['ttft_ms']:.1f}" + (f" ({row['ttft_ratio']['median']:.1f})" if row["policy"] != FULL.label else "")


def _loss(row: dict[str, Any] | None) -> str:
    share = row and row["kl_mean_share"]
    return f"{share['value']:.2f}" if share else "–"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    print("\n".join(lines(json.loads(text)) if text.strip() else ["nothing was measured: the benchmark wrote no document"]))
