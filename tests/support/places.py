"""`Place`: where the layers of a model lie in a test, and a worker process for those that lie elsewhere."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from relaylite.errors import ModelError
from relaylite.machine import devices, workers

NAMES = ("cpu", "gpu", "gpu-half", "worker", "worker-half")
START_S = 120  # importing llama_cpp on a busy machine


@dataclass(frozen=True)
class Place:
    """`worker` is the address of one that holds the layers, "" for a device of this machine."""

    name: str
    worker: str = ""

    @property
    def is_half(self) -> bool:
        return self.name.endswith("half")

    @property
    def is_bitwise(self) -> bool:
        """Whether layers computed apart must equal llama_decode bit for bit: a graphics card may fuse and so round otherwise."""
        return not self.name.startswith("gpu")

    def n_gpu_layers(self, n_layer: int) -> int:
        return 0 if self.name == "cpu" else n_layer // 2 if self.is_half else -1

    @contextmanager
    def of_model(self, n_layer: int) -> Iterator[dict[str, Any]]:
        """Arguments of `live_model.opened`."""
        held = workers.Workers([self.worker]) if self.worker else None
        try:
            yield {"n_gpu_layers": self.n_gpu_layers(n_layer), "devices": held.devices[:1] if held else ()}
        finally:
            if held:
                held.close()

    def of_engine(self, n_layer: int) -> dict[str, Any]:
        """Options of the engine."""
        return {"n_gpu_layers": self.n_gpu_layers(n_layer), "rpc": (self.worker,) if self.worker else ()}


def skip_unless_there(name: str) -> None:
    if name.startswith("gpu") and not devices.local_gpus():
        pytest.skip("no graphics card that this build of llama-cpp-python can use (docs/backends.md)")
    if name.startswith("worker") and not devices.has_rpc():
        pytest.skip("llama-cpp-python is built without RPC; benchmarks/parity.sh builds it and runs these tests")


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


@contextmanager
def started_worker(log: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A `relaylite worker` of this machine that answers, with one thread, ended afterwards."""
    port = free_port()
    command = [sys.executable, "-m", "relaylite", "worker", "--port", str(port), "--threads", "1"]
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
        try:
            _wait_for(f"127.0.0.1:{port}", process, log)
            yield f"127.0.0.1:{port}", process
        finally:
            process.kill()


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            workers.ask(address)
            return
        except ModelError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the worker did not start: {error}; {log.read_text(errors='replace')}")
            time.sleep(0.2)
