"""Workload -> the operations of one microbatch, forward and backward, unsharded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.graph.convnet import convnet
from perfmodel.graph.custom import custom
from perfmodel.graph.graph import Block, Graph
from perfmodel.graph.recommender import recommender
from perfmodel.graph.transformer import transformer
from perfmodel.specs.common import STORED_BYTES
from perfmodel.specs.workload import Convnet, Recommender, Transformer

if TYPE_CHECKING:
    from perfmodel.specs import Workload
    from perfmodel.specs.strategy import Grain, LossKernels
    from perfmodel.units import Count

__all__ = ["Block", "Graph", "expand"]


def expand(
    workload: Workload, *, microbatch: Count, fused: bool, elementwise: Grain = "merged",
    channels_last: bool = False, persistent: bool = True, heads_copied: bool = False, loss: LossKernels = "softmax",
) -> Graph:  # fmt: skip
    """The graph of one microbatch.

    Args:
        workload: family and shape.
        microbatch: samples, a number or a column.
        fused: attention never writes its scores to memory.
        elementwise: how much one kernel does.
        channels_last: the maps of convolutional networks lie as tensor cores want them.
        persistent: batch norm keeps half-precision maps on the chip that lie so.
        heads_copied: heads of keys and values are copied to the heads of queries that share them.
        loss: whose kernels compute softmax and cross-entropy of a vocabulary.

    >>> from perfmodel.library import find
    >>> expand(find("workloads", "gpt2-124m"), microbatch=1, fused=True).parameters
    124439808
    """
    model = workload.model
    element = STORED_BYTES[workload.training.precision]
    if isinstance(model, Transformer):
        return transformer(
            model, workload.training, microbatch=microbatch, fused=fused, elementwise=elementwise,
            heads_copied=heads_copied, loss=loss,
        )  # fmt: skip
    if isinstance(model, Convnet):
        return convnet(
            model, microbatch=microbatch, element=element, merged=elementwise in {"merged", "chains"},
            channels_last=channels_last, persistent=persistent,
        )  # fmt: skip
    if isinstance(model, Recommender):
        return recommender(model, microbatch=microbatch, element=element, merged=elementwise in {"merged", "chains"})
    return custom(model, microbatch=microbatch, element=element, fused=fused)
