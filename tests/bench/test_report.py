"""Rows, tables and the document, from samples whose figures are known."""

from __future__ import annotations

import json

import pytest

from relaylite.bench.plots import figures_of
from relaylite.bench.report import document, markdown, rows_of, table
from relaylite.bench.sample import Sample
from relaylite.metrics import TtftParts


def sample(method: str, prompt: int, ttft_ms: float, kl: float = 0.0, *, group: str = "2 solve", right: bool | None = None) -> Sample:
    n_span = 0 if method == "full" else 80
    parts = TtftParts(1.0, 2.0, 3.0, ttft_ms - 6.5, 0.5)
    return Sample(method, prompt, group, parts, 100, 10, n_span, n_span // 8, 0.9, 0.7, 2 * kl, kl, 0.95, right)


SAMPLES = [
    *(sample("full", n, ttft, right=True) for n, ttft in enumerate((100.0, 200.0, 400.0))),
    *(sample("naive", n, ttft, kl) for n, (ttft, kl) in enumerate(((10.0, 0.1), (20.0, 0.2), (40.0, 0.3)))),
    *(sample("relay", n, ttft, kl, right=n == 0) for n, (ttft, kl) in enumerate(((20.0, 0.05), (20.0, 0.05), (100.0, 0.05)))),
]


def test_ratios_are_paired_by_prompt() -> None:
    rows = {row["policy"]: row for row in rows_of(SAMPLES)}
    assert list(rows) == ["full", "naive", "relay"]
    assert rows["full"]["ttft_ratio"]["median"] == 1.0
    assert rows["naive"]["ttft_ratio"]["median"] == 10.0 and rows["naive"]["floor_ratio"]["median"] == 1.0
    assert rows["relay"]["ttft_ratio"]["median"] == 5.0  # of 5, 10 and 4; the medians' ratio would be 10
    assert rows["relay"]["floor_ratio"]["median"] == 2.0  # of 2, 1 and 2.5
    assert rows["relay"]["ttft_ms"] == 20.0 and rows["relay"]["ttft_parts_ms"]["suffix"] == 13.5


def test_losses_are_shares_of_what_naive_loses() -> None:
    rows = {row["policy"]: row for row in rows_of(SAMPLES)}
    assert rows["relay"]["kl_mean"] == pytest.approx(0.05) and rows["relay"]["kl_first"] == pytest.approx(0.1)
    assert rows["relay"]["kl_mean_share"]["value"] == pytest.approx(0.25)
    assert rows["naive"]["kl_mean_share"]["value"] == 1.0
    assert rows["relay"]["selected_share"] == pytest.approx(1 / 8)


def test_accuracy_counts_only_what_was_judged() -> None:
    rows = {row["policy"]: row for row in rows_of(SAMPLES)}
    assert rows["naive"]["accuracy"] is None
    assert rows["relay"]["accuracy"]["n"] == 3 and rows["relay"]["accuracy"]["value"] == pytest.approx(1 / 3)


def test_without_naive_loss_there_is_no_share() -> None:
    rows = rows_of([sample("full", 0, 10.0), sample("naive", 0, 10.0), sample("relay", 0, 10.0)])
    assert rows[-1]["kl_mean_share"] is None
    assert "–" in table(rows)[-1]


def test_the_document_has_a_row_for_each_policy_and_groups_in_order() -> None:
    groups = ["10 check", "2 solve", "3 check"]
    samples = [sample(m, n, 10.0, 0.1, group=group) for n, group in enumerate(groups) for m in ("full", "naive")]
    report = json.loads(json.dumps(document(samples, {"command": "x"})))
    assert report["version"] == 1 and report["command"] == "x" and report["error"] is None
    assert [row["policy"] for row in report["rows"]] == ["full", "naive"] and report["rows"][0]["n"] == 3
    assert [group["group"] for group in report["groups"]] == ["2 solve", "3 check", "10 check"]
    assert report["n_prompts"] == 3 and report["relayed_tokens"] == 80 and report["new_tokens"] == 10


def test_lengths_are_in_order_of_number() -> None:
    samples = [sample(m, n, 10.0, 0.1, group=g) for n, g in enumerate(("4096", "128", "1024")) for m in ("full", "naive")]
    report = document(samples, {})
    assert [group["group"] for group in report["groups"]] == ["128", "1024", "4096"]
    assert [name for name, _ in figures_of(report)] == ["speed-fidelity", "ttft-length"]


def test_a_document_of_nothing_says_why() -> None:
    report = document([], {}, "stopped")
    assert report["rows"] == [] and report["groups"] == [] and report["error"] == "stopped" and report["n_prompts"] == 0


def test_tables_leave_out_columns_that_say_nothing() -> None:
    unjudged = rows_of([s for s in SAMPLES if s.method == "naive"] + [sample("full", n, 100.0) for n in range(3)])
    assert "right" not in table(unjudged)[0] and "right" in table(rows_of(SAMPLES))[0]
    assert len({len(line) for line in table(rows_of(SAMPLES))}) == 1
    assert len(markdown(rows_of(SAMPLES))) == 2 + 3
