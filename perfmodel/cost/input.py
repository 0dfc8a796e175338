"""Preparation of samples on the hosts, as a term beside the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.host import preparation
from perfmodel.timeline import Part, term

if TYPE_CHECKING:
    from perfmodel.parallel import Layout
    from perfmodel.specs.hardware import Host
    from perfmodel.specs.input_pipeline import InputPipeline


def fetched(pipeline: InputPipeline | None, layout: Layout) -> tuple[Part, ...]:
    """The samples that each rank prepares itself before its step, which nothing hides."""
    if pipeline is None or pipeline.when == "beside":
        return ()
    samples = layout.batch / np.asarray(layout.replicas.size)
    return (term("input", preparation, kind="input", samples=samples, time=pipeline.sample, cores=1),)


def prepared(pipeline: InputPipeline | None, host: Host, layout: Layout) -> tuple[Part, ...]:
    """The samples of one step on the hosts of the job, all of which work at once; a job that leaves devices idle has the whole host."""
    if pipeline is None or pipeline.when == "before":
        return ()
    cores = pipeline.cores or host.cores or 1
    hosts = np.maximum(np.ceil(np.asarray(layout.devices) / host.devices), 1)
    made = term("input", preparation, kind="input", samples=layout.batch / hosts, time=pipeline.sample, cores=cores)
    return (made,)
