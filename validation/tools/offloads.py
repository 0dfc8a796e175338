"""What rows say of states and activations that leave the devices, as the `offload` of a strategy."""

from __future__ import annotations

import re

RATIO = re.compile(r"(?:offload\w* ratio )?\balpha=(\d(?:\.\d+)?)")
"""Of activations, in Megatron-Kwai's tables."""
LAYERS = re.compile(r"activation CPU offload (\d+) layers")
"""In Megatron-Bridge's recipes: that many of the layers of a stage."""
STATES = {r"opt\w* offl": "optimizer=host+gradients=host", r"par\w* offl": "parameters=host"}
"""DeepSpeed's offload_optimizer, with which ZeRO 2 and 3 send gradients too, and offload_param."""
UNSTATED = r"offload ratio per README script"
WITHOUT = r"mlpwo|offload decoder_layer_input \("
"""Policies that keep the product of an MLP's second matrix, or of which the row says another recipe's."""


class Unstated(ValueError):  # noqa: N818 - a reason rather than an error
    """A row offloads, but how much it does not say; the message is the reason."""


def offload_of(notes: str, recompute: str, layers: int) -> str:
    """The `offload` of a strategy; empty where nothing leaves.

    Args:
        notes: of the row.
        recompute: the policy that it prints.
        layers: of a stage.

    Raises Unstated.

    >>> offload_of("activation offload ratio alpha=0.522", "none", 8)
    'activations=host+activations_fraction=0.522'
    >>> offload_of("", "custom: decoder_layer_input=offload, query_proj=offload ; rest recomputed", 80)
    'activations=host'
    >>> offload_of("", "qkv_proj_offloaded", 80), offload_of("CPU offload: Opt Offl, Par Offl; x", "full", 64)
    ('activations=host+tensors=inside', 'optimizer=host+gradients=host+parameters=host')
    """
    if re.search(UNSTATED, notes) and not re.search("origin|baseline", notes):
        raise Unstated("how much of the activations is offloaded is not stated")
    states = [
        entry for pattern, entry in STATES.items() if re.search(rf"CPU offload: [^;]*{pattern}", notes, re.IGNORECASE)
    ]
    return "+".join([*states, *_activations(notes, recompute, layers)])


def _activations(notes: str, recompute: str, layers: int) -> list[str]:
    if re.search(r"checkpoint in CPU", notes):
        return ["activations=host"]
    if "offload" in recompute:
        if re.search(WITHOUT, recompute):
            raise Unstated(f"offloading '{recompute}' is none that the model has")
        return ["activations=host"] + ([] if "decoder_layer_input" in recompute else ["tensors=inside"])
    ratio, some = RATIO.search(notes), LAYERS.search(notes)
    share = float(ratio[1]) if ratio else int(some[1]) / layers if some else 0.0
    if not share:
        return []
    return ["activations=host"] + ([f"activations_fraction={share:g}"] if share < 1 else [])
