"""Pipelines that differ: stages with degrees, layers and speeds of their own, each pipeline with its share of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from perfmodel.origin import Fraction, Text
from perfmodel.specs.common import Size
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator


class UnequalStage(Spec):
    """Devices that share some layers."""

    tp: Size
    """Of them; all others of the job's degrees but those of the pipelines stay."""
    layers: Size
    slowdown: Annotated[Fraction, Field(gt=0)] = 1.0
    """Time of computing on its slowest device over that of one which is as it should be."""
    device: Text | None = None
    """A hardware file whose device it has, on the network of the job; default that of the job."""


class UnequalPipeline(Spec):
    """One replica of the model."""

    stages: tuple[UnequalStage, ...] = Field(min_length=1)
    microbatches: Size
    """Of a step."""

    @property
    def layers(self) -> int:
        """Of all stages."""
        return sum(int(stage.layers) for stage in self.stages)


def pipeline_faults(pipelines: tuple[UnequalPipeline, ...], beside: list[str]) -> Iterator[Fault]:
    """Pipelines of several models, and other answers to unequal machines beside them."""
    if not pipelines:
        return
    path = "stragglers.pipelines"
    for name in beside:
        yield Fault(f"stragglers.{name}", "stands beside pipelines, which say who does what; leave one out")
    for index, pipeline in enumerate(pipelines):
        if pipeline.layers != pipelines[0].layers:
            message = f"stages hold {pipeline.layers} layers, those of the first pipeline {pipelines[0].layers}"
            yield Fault(f"{path}.{index}.stages", message)
