"""Draw the pictures of docs/pipelines.md: every schedule over four stages, passes of equal length.

python tools/pipelines.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
FOLDER = ROOT / "docs" / "images" / "pipelines"
STAGES = 4
CHUNKS = {"breadth-first": 2, "zero-bubble-v": 2, "interleaved": 2}
PAIR = 0.85
"""Share of the sum of their times that a forward and a backward pass of DualPipe are drawn with."""


def pictures() -> dict[str, tuple[str, int, int, int]]:
    """Name of a picture, and the schedule, chunks, microbatches and steps that it shows."""
    from perfmodel.schedule import SCHEDULES

    made: dict[str, tuple[str, int, int, int]] = {name: (str(name), CHUNKS.get(name, 1), 8, 1) for name in SCHEDULES}
    made["interleaved"] = ("1f1b", 2, 8, 1)
    made["pipedream"] = ("pipedream", 1, 4, 3)
    del made["pipedream-2bw"]  # the same passes
    return made


def draw(picture: str) -> None:
    """One picture: passes on top, microbatches in flight below."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from perfmodel.reporting.pipeline_plot import draw_kept, draw_passes
    from perfmodel.schedule import SCHEDULES
    from perfmodel.schedule.simulate import Times

    name, chunks, microbatches, steps = pictures()[picture]
    schedule = SCHEDULES[name]  # type: ignore[index]
    ones = [1.0 / chunks] * (STAGES * (chunks + schedule.repeats))
    shared = PAIR if schedule.both_ways else 1.0
    simulation = schedule.play(STAGES, chunks, steps * microbatches, Times(ones, ones, ones, shared=shared))
    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(11, 3.0), layout="constrained", sharex=True, height_ratios=[3, 1.3]
    )
    draw_passes(upper, simulation)
    draw_kept(lower, simulation, chunks)
    lower.set_xlabel("time, in forward passes of a stage")
    figure.savefig(FOLDER / f"{picture}.png", dpi=100, metadata={"Software": ""})
    plt.close(figure)


def draw_step() -> None:
    """A predicted step, as `perfmodel predict --plot-pipeline` draws it."""
    import perfmodel

    step = perfmodel.predict(
        "gpt3-175b",
        "dgx-a100-80gb",
        strategy="megatron-2022",
        devices=64,
        tp=8,
        pp=8,
        batch=24,
        schedule="zero-bubble-h1",
    )
    perfmodel.plot_pipeline(step, FOLDER / "gpt3-175b.png")


def main() -> int:
    """Draw all of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for picture in pictures():
        draw(picture)
    draw_step()
    return 0


if __name__ == "__main__":
    sys.exit(main())
