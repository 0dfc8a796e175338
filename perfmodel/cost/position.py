"""Where a kernel stands under the roofline: what binds it, and what keeps it from the peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from perfmodel.formulas.attention import flash_attention
from perfmodel.formulas.matmul import tiled_compute, tiled_matmul
from perfmodel.formulas.roofline import chunked, fused, overlapped, paced, streaming
from perfmodel.formulas.split import split_product

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfmodel.timeline import Term

Bound = Literal["computing", "memory", "elements", "cores", "launch"]


@dataclass(frozen=True, slots=True)
class Position:
    """One execution of a kernel."""

    flops: float
    traffic: float
    time: float
    peak: float
    """FLOP/s of the device; 0 where the kernel multiplies nothing."""
    bandwidth: float
    bound: Bound
    factors: Mapping[str, float]
    """Shares of the peak, or of the bandwidth, that are left one after the other; their product is what is reached."""

    @property
    def intensity(self) -> float:
        """FLOP for each byte of memory traffic."""
        return self.flops / self.traffic if self.traffic else np.inf

    @property
    def of_peak(self) -> float:
        """Share of the peak that is reached."""
        return self.flops / self.time / self.peak if self.peak else 0.0

    @property
    def of_bandwidth(self) -> float:
        """Share of the memory bandwidth that is reached."""
        return self.traffic / self.time / self.bandwidth


def position(term: Term) -> Position | None:
    """The position of a term; None for messages and the host, which have no place under a roofline."""
    find = POSITIONS.get(term.formula)
    if find is None:
        return None
    return find(
        {name: value if np.ndim(value) else float(value) for name, value in term.inputs.items()}, float(term.time)
    )


def _ladder(ideal: float, **times: float) -> dict[str, float]:
    """Each longer time as the share that it leaves of the one before."""
    factors, before = {}, ideal
    for name, time in times.items():
        factors[name] = float(before / time) if time else 1.0
        before = time
    return factors


def _bound(computing: float, moving: float, launch: float) -> Bound:
    if launch > max(computing, moving):
        return "launch"
    return "computing" if computing >= moving else "memory"


def _product(i: dict[str, Any], time: float, parts: float = 1.0) -> Position:
    """Tiles: what the edges, the last wave, the loading, the filling and the moving cost in turn."""
    flops = 2 * i["rows"] * i["columns"] * i["depth"] * i["count"]
    ideal, rate = flops / i["peak"], i["peak"] * i["fraction"] * i["sustained"]
    cut = i | {"count": i["count"] * parts, "depth": i["depth"] / parts}
    r, c = _fastest(cut, rate)
    tiles = cut["count"] * np.ceil(i["rows"] / r) * np.ceil(i["columns"] / c)
    whole = 2 * tiles * r * c * cut["depth"] / rate
    waved = whole * np.ceil(tiles / i["cores"]) * i["cores"] / tiles
    computing = _computing(cut, rate, r, c)
    filled = computing * cut["depth"] / (cut["depth"] + i["depth_half"])
    moving = _moved(i, parts) / (i["streaming_fraction"] * i["bandwidth"])
    bound = _bound(computing, moving, i["launch"])
    joint = float(overlapped(computing=computing, moving=moving, overlap=i["overlap"]))
    factors = (
        _ladder(i["traffic"] / i["bandwidth"], share=moving, overlap=joint, launch=time)
        if bound == "memory"
        else _ladder(
            ideal, share=ideal / i["fraction"], clock=flops / rate, edge=whole, wave=waved, loading=filled,
            depth=computing, overlap=joint, launch=time,
        )
    )  # fmt: skip
    return Position(flops, i["traffic"], time, i["peak"], i["bandwidth"], bound, factors)


def _computing(i: dict[str, Any], rate: float, r: float, c: float) -> float:
    names = ("rows", "columns", "depth", "count", "cores", "tile_balance", "depth_half", "depth_time", "overlap")
    return float(tiled_compute(**{name: i[name] for name in names}, rate=rate, tile_rows=r, tile_columns=c))


def _fastest(i: dict[str, Any], rate: float) -> tuple[float, float]:
    shapes = list(zip(np.atleast_1d(i["tile_rows"]), np.atleast_1d(i["tile_columns"]), strict=True))
    return shapes[int(np.argmin([_computing(i, rate, r, c) for r, c in shapes]))]


def _moved(i: dict[str, Any], parts: float) -> float:
    sums = 2 * parts * i["partial"] * i["count"] * i["rows"] * i["columns"] if parts > 1 else 0.0
    return float(i["traffic"] + sums)


def _split(i: dict[str, Any], time: float) -> Position:
    """As the product of the better way: whole, or in the parts that fill the cores with tiles of some shape."""
    shapes = zip(np.atleast_1d(i["tile_rows"]), np.atleast_1d(i["tile_columns"]), strict=True)
    ways = [(1.0, i)]
    for r, c in shapes:
        tiles = i["count"] * np.ceil(i["rows"] / r) * np.ceil(i["columns"] / c)
        parts = float(np.clip(np.floor(i["cores"] / tiles), 1, min(i["splits"], i["depth"])))
        ways.append((parts, i | {"tile_rows": r, "tile_columns": c}))
    found = [_product(own, time, parts) for parts, own in ways]
    # the way whose own times come nearest to the time of the kernel is the one it took
    return min(found, key=lambda p: abs(p.factors["launch"] - (time - i["launch"]) / time))


def _attention(i: dict[str, Any], time: float) -> Position:
    flops = 2 * i["heads"] * i["queries"] * i["keys"] * i["width"]
    ideal = flops / i["peak"]
    shared = ideal / i["fraction"]
    exponentials = shared * (i["width"] + i["softmaxes"] * i["softmax_width"]) / i["width"]
    blocks = i["heads"] * np.ceil(i["queries"] / i["block"])
    rows = i["block"] if i["queries"] > i["block"] / 2 else i["block"] / 2
    edged = exponentials * blocks * rows / (i["heads"] * i["queries"])
    waved = edged * np.ceil(blocks / i["cores"]) * i["cores"] / blocks
    computing = waved * (i["keys"] + i["keys_half"]) / i["keys"]
    moving = i["traffic"] / (i["streaming_fraction"] * i["bandwidth"])
    bound = _bound(computing, moving, i["launch"])
    joint = float(overlapped(computing=computing, moving=moving, overlap=i["overlap"]))
    factors = (
        _ladder(i["traffic"] / i["bandwidth"], share=moving, overlap=joint, launch=time)
        if bound == "memory"
        else _ladder(
            ideal, share=shared, exponentials=exponentials, edge=edged, wave=waved, keys=computing, overlap=joint,
            launch=time,
        )
    )  # fmt: skip
    return Position(flops, i["traffic"], time, i["peak"], i["bandwidth"], bound, factors)


def _fused(i: dict[str, Any], time: float) -> Position:
    ideal = i["work"] / i["compute_rate"]
    computing, moving = ideal / i["fraction"], i["traffic"] / (i["streaming_fraction"] * i["bandwidth"])
    bound = _bound(computing, moving, i["launch"])
    least, share = (i["traffic"] / i["bandwidth"], moving) if bound == "memory" else (ideal, computing)
    factors = _ladder(least, share=share, overlap=max(computing, moving), launch=time)
    return Position(i["work"], i["traffic"], time, i["compute_rate"], i["bandwidth"], bound, factors)


def _chunked(i: dict[str, Any], time: float) -> Position:
    """What cores get through, after what memory and products would take."""
    ideal = i["work"] / i["compute_rate"]
    computing, moving = ideal / i["fraction"], i["traffic"] / (i["streaming_fraction"] * i["bandwidth"])
    through = i["traffic"] / (i["cores"] * i["pace"])
    bound = "cores" if through > max(computing, moving, i["launch"]) else _bound(computing, moving, i["launch"])
    least, share = (ideal, computing) if bound == "computing" else (i["traffic"] / i["bandwidth"], moving)
    factors = _ladder(least, share=share, cores=max(computing, moving, through), launch=time)
    return Position(i["work"], i["traffic"], time, i["compute_rate"], i["bandwidth"], bound, factors)


def _streaming(i: dict[str, Any], time: float) -> Position:
    moving = i["traffic"] / (i["fraction"] * i["bandwidth"])
    paced_by = i["elements"] / i["rate"] if "rate" in i else 0.0
    bound: Bound = "launch" if i["launch"] > max(moving, paced_by) else "elements" if paced_by > moving else "memory"
    factors = _ladder(i["traffic"] / i["bandwidth"], share=moving, elements=max(moving, paced_by), launch=time)
    return Position(0.0, i["traffic"], time, 0.0, i["bandwidth"], bound, factors)


POSITIONS: dict[Callable[..., Any], Callable[[dict[str, Any], float], Position]] = {
    tiled_matmul: _product, split_product: _split, flash_attention: _attention, fused: _fused,
    chunked: _chunked, streaming: _streaming, paced: _streaming,
}  # fmt: skip
"""How the position of each formula's kernels is found."""
