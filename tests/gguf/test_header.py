"""What is wrong with a model file is said in one line, before llama.cpp sees the file."""

from __future__ import annotations

import os
from pathlib import Path

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.small_file import write_model

from relaylite.errors import ModelFileError
from relaylite.gguf.header import MAX_KEPT, part_names, read_model_file


def message(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        read_model_file(path)
    text = str(caught.value)
    assert "\n" not in text and path.name in text
    return text


def test_header_is_read(tmp_path: Path) -> None:
    file = read_model_file(write_model(tmp_path / "m.gguf"))
    assert file.architecture == "llama"
    assert file.value("block_count") == 2
    assert file.value("attention.head_count_kv") == [1, 2]
    assert file.lengths["tokenizer.ggml.tokens"] == MAX_KEPT + 1 and "tokenizer.ggml.tokens" not in file.metadata
    assert [(t.name, t.shape, t.n_bytes) for t in file.tensors] == [("token_embd.weight", (64, 3), 768), ("output.weight", (64, 5), 640)]
    assert file.n_params == 64 * 8


def test_block_sizes_equal_those_of_the_gguf_package() -> None:
    from relaylite.gguf.header import _BLOCKS

    assert {int(kind): size for kind, size in gguf.GGML_QUANT_SIZES.items()}.items() <= _BLOCKS.items()


def test_the_default_model_is_read_as_the_gguf_package_reads_it(default_model_path: Path) -> None:
    ours, theirs = read_model_file(default_model_path), gguf.GGUFReader(default_model_path)
    assert ours.data_start == theirs.data_offset
    assert [(t.name, t.shape, t.n_bytes) for t in ours.tensors] == [(t.name, tuple(t.shape.tolist()), t.n_bytes) for t in theirs.tensors]
    assert ours.value("embedding_length") == theirs.get_field("llama.embedding_length").contents()


def test_missing(tmp_path: Path) -> None:
    assert "there is no file" in message(tmp_path / "m.gguf")


def test_folder(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").mkdir()
    assert "is a folder" in message(tmp_path / "m.gguf")


def test_device() -> None:
    assert "not a regular file" in message(Path("/dev/null"))


def test_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.gguf")
    assert "not a regular file" in message(tmp_path / "m.gguf")


def test_empty(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").touch()
    assert "is empty" in message(tmp_path / "m.gguf")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable(tmp_path: Path) -> None:
    write_model(tmp_path / "m.gguf").chmod(0)
    assert "cannot be read: Permission denied" in message(tmp_path / "m.gguf")


def test_unreadable_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    write_model(tmp_path / "m.gguf")
    monkeypatch.setattr(Path, "open", refuse)
    assert "cannot be read: Permission denied" in message(tmp_path / "m.gguf")


@pytest.mark.parametrize("content", [b"PK\x03\x04" + bytes(100), b"GGU", b"ggml" + bytes(64)])
def test_wrong_magic(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    assert "not a GGUF file" in message(tmp_path / "m.gguf")


@pytest.mark.parametrize("version", [1, 4, 3 << 24])
def test_version(tmp_path: Path, version: int) -> None:
    path = write_model(tmp_path / "m.gguf")
    path.write_bytes(b"GGUF" + version.to_bytes(4, "little") + path.read_bytes()[8:])
    assert f"GGUF version {version}" in message(path)


def test_truncated_weights(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf")
    content = path.read_bytes()
    end = read_model_file(path).data_start + 768 + 640
    path.write_bytes(content[: end - 1])
    assert f"truncated: {end - 1} bytes of at least {end}" in message(path)
    path.write_bytes(content[:end])
    read_model_file(path)


def test_zero_dimension(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf")
    shape = (64).to_bytes(8, "little") + (5).to_bytes(8, "little")
    content = path.read_bytes()
    assert content.count(shape) == 1
    path.write_bytes(content.replace(shape, (64).to_bytes(8, "little") + bytes(8)))
    assert "a dimension of zero for tensor 'output.weight'" in message(path)


def test_zero_layers(tmp_path: Path) -> None:
    assert "'llama.block_count' = 0" in message(write_model(tmp_path / "m.gguf", block_count=0))


def test_other_kinds_of_gguf(tmp_path: Path) -> None:
    assert "of type 'adapter'" in message(write_model(tmp_path / "m.gguf", type="adapter"))


def test_missing_part(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m-00001-of-00002.gguf")
    assert "m-00002-of-00002.gguf is not beside it" in message(path)
    write_model(tmp_path / "m-00002-of-00002.gguf")
    read_model_file(path)


def test_part_names() -> None:
    assert part_names("m.gguf") == ("m.gguf",)
    assert part_names("m-00001-of-00003.gguf") == tuple(f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3))
    with pytest.raises(ModelFileError, match="m-00001-of-00003"):
        part_names("m-00002-of-00003.gguf")


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_model(tmp_path_factory.mktemp("model") / "m.gguf").read_bytes()


@settings(deadline=None, max_examples=60)
@given(share=st.floats(0, 1, exclude_max=True))
def test_cut_anywhere_it_is_refused(content: bytes, tmp_path_factory: pytest.TempPathFactory, share: float) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.gguf"
    path.write_bytes(content[: int(share * (len(content) - 64))])
    message(path)


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_any_damaged_header_is_read_or_refused(content: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(damaged)
    try:
        read_model_file(path)
    except ModelFileError as error:
        assert "\n" not in str(error)
