"""What the study vtrain says of its own rows: times on one host are composed of a few constants."""

import csv
from collections import defaultdict

import numpy as np

from perfmodel.library import validation_folder

EXACT = 1e-7
"""Seconds; the table prints nanoseconds."""


def test_step_times_on_one_host_are_affine_in_layers_and_microbatches() -> None:
    """Four constants of each (hidden, tp, microbatch, stages) give all step times of one replica."""
    groups = defaultdict(list)
    lines = (validation_folder() / "vtrain" / "cases.csv").read_text(encoding="utf-8").splitlines()
    for row in csv.DictReader(lines):
        if "ground_truth_single" in row["address"] and row["dp"] == "1":
            shape = dict(part.strip().split("=") for part in row["overrides"].split(";"))
            key = (shape["workload.model.hidden"], row["tp"], row["microbatch"], row["pp"])
            groups[key].append((
                float(shape["workload.model.layers"]), int(row["global_batch"]) // int(row["microbatch"]), float(row["value"])
            ))  # fmt: skip
    told, worst = 0, 0.0
    for rows in groups.values():
        layers, microbatches, times = np.array(rows).T
        terms = np.stack([np.ones_like(layers), microbatches, layers, layers * microbatches], axis=1)
        found, _, rank, _ = np.linalg.lstsq(terms, times, rcond=None)
        if len(rows) > rank + 1:
            told += len(rows)
            worst = max(worst, float(np.abs(terms @ found - times).max()))
    assert told > 350
    assert worst < EXACT
