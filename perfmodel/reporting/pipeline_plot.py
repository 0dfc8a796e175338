"""A pipeline as a picture: the passes of each stage over time, and the microbatches whose activations it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfmodel.prediction import Prediction
    from perfmodel.schedule.passes import Slot
    from perfmodel.schedule.replay import Event
    from perfmodel.schedule.simulate import Simulation

COLOURS = {
    "forward": "#6baed6", "backward": "#74c476", "weight": "#fdae6b", "whole": "#41ab5d", "pair": "#9e9ac8",
    "send": "0.55", "exchange": "#e377c2", "update": "#d62728",
}  # fmt: skip
NAMES = {
    "forward": "forward", "backward": "gradients of inputs", "weight": "gradients of weights", "whole": "backward",
    "pair": "forward beside backward", "send": "send", "exchange": "exchange of gradients", "update": "update",
}  # fmt: skip
READABLE = 1 / 130
"""Of the width: a slot this wide has room for its number."""


def plot_pipeline(prediction: Prediction, path: Path) -> None:
    """Draw a predicted step, stage by stage."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    replay, layout = prediction.replay, prediction.layout
    stages = int(layout.pp)
    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(14, 3.2 + 0.35 * min(stages, 32)), layout="constrained", sharex=True,
        height_ratios=[max(stages, 3), 3],
    )  # fmt: skip
    draw_passes(upper, replay.simulation, replay.events)
    draw_kept(lower, replay.simulation, int(layout.vpp))
    lower.set_xlabel("time [s]")
    upper.set_title(
        f"{prediction.workload.name} on {prediction.hardware.name}: {prediction.strategy.schedule}, {stages} stages, "
        f"{layout.microbatches:.0f} microbatches; {replay.step_time:.4g} s pass by pass, {prediction.step_time:.4g} s by the closed form"
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_passes(axes: Any, simulation: Simulation, events: Sequence[Event] = ()) -> None:
    """One row for each stage, the first on top; the further a chunk is along the model, the paler."""
    from matplotlib.patches import Patch

    end = max([simulation.end, *(event.end for event in events)])
    stages = len(simulation.devices)
    deepest = max(each.position for slots in simulation.devices for one in slots for each in one.slot) // stages
    used: dict[str, None] = {}
    for device, slots in enumerate(simulation.devices):
        for played in slots:
            kind = kind_of(played.slot)
            used[kind] = None
            shade = 1.0 - 0.5 * (played.slot[0].position // stages) / max(deepest, 1)
            _bar(axes, device, played.start, played.end, kind, shade=shade)
            if played.end - played.start > end * READABLE:
                middle = (played.start + played.end) / 2
                number = "\n".join(dict.fromkeys(str(each.microbatch) for each in played.slot))
                axes.text(middle, device, number, ha="center", va="center", fontsize=7, clip_on=True)
            if played.sent > played.end:
                used["send"] = None
                _bar(axes, device, played.end, played.sent, "send")
    for event in events:
        used[event.kind] = None
        _bar(
            axes, device=event.device, start=event.start, end=event.end, kind=event.kind, thin=event.kind == "exchange"
        )
    axes.set(ylim=(len(simulation.devices) - 0.5, -0.5), xlim=(0, end), ylabel="stage")
    axes.set_yticks(range(0, len(simulation.devices), max(1, len(simulation.devices) // 16)))
    handles = [Patch(color=COLOURS[kind], label=NAMES[kind]) for kind in COLOURS if kind in used]
    axes.legend(handles=handles, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _bar(
    axes: Any, device: int, start: float, end: float, kind: str, *, thin: bool = False, shade: float = 1.0
) -> None:
    low, height = (device + 0.3, 0.18) if thin else (device - 0.42, 0.84)
    axes.broken_barh(
        [(start, end - start)], (low, height), facecolors=COLOURS[kind], alpha=shade, edgecolor="white", linewidth=0.3
    )


def kind_of(slot: Slot) -> str:
    """Which colour a slot has."""
    kinds = {each.kind for each in slot}
    if {"forward", "backward"} <= kinds:
        return "pair"
    return "whole" if {"backward", "weight"} <= kinds else slot[0].kind


def draw_kept(axes: Any, simulation: Simulation, chunks: int, most: int = 6) -> None:
    """Microbatches in flight over time, of some stages from the first to the last."""
    devices = len(simulation.devices)
    shown = sorted({round(k * (devices - 1) / max(min(most, devices) - 1, 1)) for k in range(min(most, devices))})
    for device in shown:
        times, counts = zip(*simulation.in_flight(device), strict=True)
        axes.step(times, [count / chunks for count in counts], where="post", label=f"stage {device}", linewidth=1.2)
    axes.set(ylabel="microbatches\nin flight", ylim=(0, None))
    axes.locator_params(axis="y", integer=True)
    axes.grid(color="0.92")
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
