"""Rows on disk by smaller codecs: they come back with some loss, are never exact, and nothing else is lost for them."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from support.rows_on_disk import PLENTY, TEXT, WIDE, files, found, lossy, prompt, smooth_rows
from support.sample_rows import assert_match

from relaylite.store import Store
from relaylite.store.codec import CODECS


def test_rows_are_exact_until_only_a_smaller_codec_is_left(tmp_path):
    rows = smooth_rows(TEXT)
    store = lossy(tmp_path, 2 * rows.n_bytes)
    store.put(rows)
    store.flush()
    assert len(store.prefix(prompt(TEXT), exact=True)) == 80  # still in memory as it was
    for first in (1, 2, 3):
        store.put(smooth_rows([first, *TEXT[1:]]))
    assert store.prefix(prompt(TEXT), exact=True) is None
    for _ in range(2):  # from the file, then from memory again
        left = store.prefix(prompt(TEXT), exact=False)
        assert len(left) == 80 and left.rows.n_exact == 0
    assert store.prefix(prompt(TEXT), exact=True) is None
    store.put(rows)
    again = store.prefix(prompt(TEXT), exact=True)
    assert len(again) == 80 and again.rows.n_exact == 80
    assert_match(again, TEXT, rows)


def test_what_goes_on_from_a_smaller_codec_is_found_behind_it(tmp_path):
    store = lossy(tmp_path)
    store.put(smooth_rows(TEXT[:50]))
    store.put(smooth_rows(TEXT))
    store.close()
    assert len(files(tmp_path)) == 2
    again = lossy(tmp_path)
    match = found(again, TEXT, exact=False)
    assert len(match) == 80 and match.rows.n_exact == 0 and again.prefix(prompt(TEXT), exact=True) is None
    again.put(replace(match.rows, loading=None))  # as a turn that went on from them leaves them
    assert again.stats().tokens == 80 and again.stats().spans == 2


def test_exact_rows_before_a_smaller_codec_stay_exact(tmp_path):
    plain = Store(WIDE, PLENTY, folder=tmp_path)
    plain.put(smooth_rows(TEXT[:50]))
    plain.close()
    store = lossy(tmp_path)
    store.put(smooth_rows(TEXT))
    store.close()
    again = lossy(tmp_path)
    assert len(again.prefix(prompt(TEXT), exact=True)) == 50
    match = again.prefix(prompt(TEXT), exact=False)
    assert len(match) == 80 and match.rows.n_exact == 50
    [span] = again.spans(prompt([7, *TEXT]), 0, 32)[:1]
    assert span.rows.n_exact - span.offset == len(span) == 50


def test_exact_rows_of_a_text_take_nothing_from_what_stands_behind_its_smaller_codec(tmp_path):
    """Both lie in a file of the same name: what is written last is there for both."""
    store = lossy(tmp_path)
    store.put(smooth_rows(TEXT[:50]))
    store.close()
    again = lossy(tmp_path, smooth_rows(TEXT[:60]).n_bytes)
    again.put(replace(smooth_rows(TEXT), n_exact=0))  # a turn that went on from what came back
    again.put(smooth_rows(TEXT[:50]))  # settled
    again.flush()
    assert len(again.prefix(prompt(TEXT), exact=False)) == 80


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_rows_that_are_decoded_hold_on_to_no_file(tmp_path):
    store = lossy(tmp_path)
    states = {"l_in-1": np.ones((80, 4), np.float16)}
    store.put(replace(smooth_rows(TEXT), states=states))
    store.close()
    again = lossy(tmp_path)
    match = found(again, TEXT, exact=False)
    assert match.rows.states["l_in-1"].all()
    gc.collect()
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("seed", range(40))
def test_with_little_room_nothing_is_handed_out_wrong(seed, tmp_path):
    """Texts that share beginnings are put, exact or in part, asked for and written, in stores that hold few of them at once."""
    random = Random(seed)
    row = smooth_rows([1]).n_bytes
    ram, disk = random.choice([60, 100, 160]) * row, random.choice([20_000, 40_000, PLENTY])
    texts = [[random.randrange(256) for _ in range(120)] for _ in range(3)]

    def opened() -> Store:
        return Store(WIDE, ram, folder=tmp_path, disk_bytes=disk, codec=CODECS[random.choice(["q8", "q8", "plain"])])

    store = opened()
    for _ in range(40):
        text = random.choice(texts)[: random.randrange(33, 120)]
        if random.random() < 0.3:
            text = [*text[: random.randrange(20, len(text))], *(random.randrange(256) for _ in range(random.randrange(5, 40)))]
        match random.choice(["put", "put", "put relayed", "find", "find exact", "flush", "close"]):
            case "put":
                store.put(smooth_rows(text))
            case "put relayed":
                store.put(replace(smooth_rows(text), n_exact=random.randrange(len(text))))
            case "find":
                found(store, text, exact=False)
            case "find exact":
                if exact := found(store, text, exact=True):
                    assert_match(exact, text[: len(exact)], smooth_rows(text))
            case "flush":
                store.flush()
            case "close":
                store.close()
                store = opened()
        assert store.stats().ram_bytes <= ram
