"""Write into each strategy of the library how far the jobs that its framework ran lie from their predictions.

    python tools/framework_errors.py

Predicts the calibration rows of all studies. Sets `points`, `error` (median) and `error_80` (of the logarithms, 80th
percentile) in every strategy whose `framework`, by name, ran some, takes them out of the others, and prints the error of
all rows together, which `perfmodel.cost.interval.ALL_SOFTWARE` has to be.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perfmodel.validation.run import validate
from perfmodel.validation.study import load_studies

ROOT = Path(__file__).resolve().parent.parent
RECORD = ("points", "error", "error_80")


def strategies() -> dict[Path, str]:
    """Files of the library whose framework has a name, with that name."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "strategies").glob("*.yaml"))}
    named = {path: re.search(r"^framework:\n  name: (.*)$", text, re.MULTILINE) for path, text in texts.items()}
    return {path: found[1] for path, found in named.items() if found}


def errors(names: dict[str, str]) -> dict[str, list[float]]:
    """Logarithms of predicted over measured times of calibration rows, by framework; `names` are those of strategies."""
    studies = load_studies([])
    ran = {row.measurement.id: row.measurement.strategy for s in studies for rows in s.configurations for row in rows}
    found: dict[str, list[float]] = defaultdict(list)
    for judged in validate(studies):
        for o in judged.outcomes:
            if o.counts and o.split == "calibration" and o.metric != "peak_memory" and o.error is not None:
                found[names.get(str(ran[o.id]), "")].append(float(np.log1p(o.error)))
    return found


def record(found: list[float]) -> dict[str, str]:
    """The lines of one framework."""
    if not found:
        return {}
    size = np.abs(found)
    median, most = np.median(np.abs(np.expm1(found))), np.quantile(size, 0.8)
    return {"points": str(len(found)), "error": f"{median:.3f}", "error_80": f"{most:.3f}"}


def with_record(text: str, lines: dict[str, str]) -> str:
    """A strategy's text with these lines in its framework, behind its status."""
    head, block, tail = re.split(r"(^framework:\n(?:  .*\n)+)", text, maxsplit=1, flags=re.MULTILINE)
    kept = [line for line in block.splitlines() if line.split(":")[0].strip() not in RECORD]
    at = next(i for i, line in enumerate(kept) if line.startswith("  status:")) + 1
    kept[at:at] = [f"  {key}: {value}" for key, value in lines.items()]
    return head + "\n".join(kept) + "\n" + tail


def main() -> int:
    """Write all records."""
    names = strategies()
    found = errors({path.stem: name for path, name in names.items()})
    for path, name in names.items():
        path.write_text(with_record(path.read_text(encoding="utf-8"), record(found.get(name, []))), encoding="utf-8")
    everything = np.abs(np.concatenate(list(found.values())))
    print(f"ALL_SOFTWARE = {np.quantile(everything, 0.8):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
