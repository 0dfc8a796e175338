"""Elements in a second of kernels that handle them one at a time, from tables of kernels.

    python tools/fit_pace.py memory_bound.csv.gz DEVICE [DEVICE ...]

Of the calibration rows of Vidur's tables (PyTorch and vLLM, fp16), kernels of more than 20 million elements: norms of
rows and lookups. Prints the median of each, its spread and the fit as YAML.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from pathlib import Path

import numpy as np

LEAST = 2e7
"""Elements, beyond which launches and caches do not matter."""
OPS = {"rows": "rmsnorm/layernorm", "gather": "embedding"}


def rates(table: Path, device: str, op: str) -> list[float]:
    """Elements in a second of each kernel."""
    with gzip.open(table, "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["device"] == device and row["op"] == op]
    sizes = [(float(r["rows"]) * float(r["cols"]), float(r["time_us"])) for r in rows if r["split"] == "calibration"]
    return [size / time * 1e6 for size, time in sizes if size > LEAST]


def main() -> int:
    """Fit devices."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("devices", nargs="+")
    options = parser.parse_args()
    for device in options.devices:
        for name, op in OPS.items():
            found = np.array(rates(options.table, device, op))
            median = float(np.median(found))
            spread = float(np.median(np.abs(found / median - 1)))
            print(f"{device}: {{{name}: {median / 1e9:.0f} GHz, points: {len(found)}, error: {spread:.3f}}}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
