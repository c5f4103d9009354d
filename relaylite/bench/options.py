"""`BenchOptions`: what a benchmark is asked for, besides its methods and its tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from relaylite.bench.chains import ChainOptions


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """`relayed`: lengths of relayed text to measure at, in tokens; empty for the answers of the chain as they are.

    `n_follow`: tokens behind the prompt over which the loss is a mean; they are forced, the same for all methods. `judges`: whether
    each method writes the last agent's answer too, for tasks that have a right one. `executes`: whether programs are run for that.
    """

    chains: ChainOptions = field(default_factory=ChainOptions)
    relayed: tuple[int, ...] = ()
    n_follow: int = 48
    judges: bool = True
    executes: bool = False
