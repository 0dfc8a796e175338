"""Draw docs/images/collectives.png: bus bandwidth against size, measured points and the model's line, by fabric.

    python tools/plot_collectives.py [--data DATA]

DATA is the shared data folder (default ../shared/data). Fabrics and rows are entries of fabrics.yaml; the constants are those
that the library's machines state.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.calibration.exchanges import Chosen, predicted, read_exchanges
from perfmodel.library import find

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from perfmodel.calibration.exchanges import Exchange
    from perfmodel.specs.network import Tier

FIT = importlib.import_module("tools.fit_fabrics")
PICTURE = ROOT / "docs" / "images" / "collectives.png"
PANELS = {
    "DGX-2": "DGX-2 (NVSwitch)", "AC922": "AC922 (NVLink, X-Bus)", "DGX-1 P100": "DGX-1 (cube mesh)",
    "A100": "DGX A100", "H100": "DGX H100", "B200": "DGX B200",
    "H100 surface, 4 to 512 hosts": "H100 InfiniBand, hosts of 8", "A100 EFA (p4de)": "two p4de over EFA",
}  # fmt: skip
SMALLEST = 1e4
"""Bytes; what is smaller lies at the foot of the picture."""


def all_reduces(entry: dict[str, Any], data: Path) -> tuple[list[Exchange], tuple[Tier, ...]]:
    """The all-reduces of an entry, and the network of its machine as shipped."""
    machine = find("hardware", entry["on"])
    with TemporaryDirectory() as made:
        rows = read_exchanges([FIT.selected(entry, data, Path(made) / "rows.csv")], machine, Chosen()).rows
    kept = [r for r in rows if r.message.collective == "all-reduce" and r.message.size >= SMALLEST]
    return kept, machine.network


def rate(rows: list[Exchange], times: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Bus bandwidth of all-reduces, as nccl-tests counts it [GB/s]."""
    ranks = np.array([row.message.group.size for row in rows], dtype=float)
    sizes = np.array([row.message.size for row in rows], dtype=float)
    return np.asarray(2 * (ranks - 1) / ranks * sizes / times / 1e9)


def panel(axes: Axes, title: str, rows: list[Exchange], network: tuple[Tier, ...]) -> None:
    """Points and lines of one fabric, a colour for each number of ranks."""
    for colour, ranks in enumerate(sorted({int(row.message.group.size) for row in rows})):
        own = sorted((r for r in rows if r.message.group.size == ranks), key=lambda r: float(r.message.size))
        sizes = [float(row.message.size) for row in own]
        measured, model = rate(own, np.array([r.time for r in own])), rate(own, predicted(own, network))
        axes.plot(sizes, measured, "o", color=f"C{colour}", markersize=3.5, label=f"{ranks}")
        axes.plot(sizes, model, "-" if len(own) > 1 else "_", color=f"C{colour}", linewidth=1.2, markersize=12)
    axes.set(xscale="log", yscale="log", title=title)
    axes.grid(alpha=0.3)
    axes.legend(title="GPUs", fontsize="x-small", title_fontsize="x-small", loc="lower right", ncols=2)


def main() -> int:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    data = parser.parse_args().data
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    entries = {entry["name"]: entry for entry in FIT.plan()}
    figure, grid = plt.subplots(2, 4, figsize=(16, 8), layout="constrained")
    for axes, (name, title) in zip(grid.flat, PANELS.items(), strict=True):
        panel(axes, title, *all_reduces(entries[name], data))
    figure.supxlabel("bytes of an all-reduce")
    figure.supylabel("bus bandwidth [GB/s]: measured (points), model (lines)")
    figure.savefig(PICTURE, dpi=80, metadata={"Software": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
