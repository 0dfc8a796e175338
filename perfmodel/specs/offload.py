"""Which states of training leave the devices for the memory of their host or its drives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import model_validator

from perfmodel.origin import KeepOrigin, origin_of, traced
from perfmodel.specs.common import Share
from perfmodel.yamlfile import Fault, Spec, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

Tier = Annotated[Literal["none", "host", "nvme"], KeepOrigin]
"""Where a state is kept: on the device, in the host's memory, or on its drives."""
STATES = ("optimizer", "gradients", "parameters", "activations")
"""What may leave a device."""


class Offload(Spec):
    """Where each state is kept; as a text the entries that differ from the defaults, `optimizer=host+activations=host`."""

    optimizer: Tier = "none"
    """fp32 master weights and moments. Gradients follow them, and updated weights come back."""
    gradients: Tier = "none"
    """As they add up: each microbatch's leave in its backward pass; else the sum does, in the last one."""
    parameters: Tier = "none"
    """The weights that compute, or this rank's part of them: fetched layer by layer for each pass."""
    activations: Tier = "none"
    """Those kept from forward to backward pass."""
    optimizer_fraction: Share = 1.0
    """Of the parameters, those whose states leave (ZeRO-Offload++ calls it ratio); the device updates the others."""
    activations_fraction: Share = 1.0
    """Of the activations that may leave, in bytes: alpha of Megatron-Kwai, the share of layers of Megatron-Core."""
    tensors: Annotated[Literal["all", "inputs", "inside"], KeepOrigin] = "all"
    """Which activations may leave: all that are kept, what enters each layer (MaxText's decoder_layer_input), or all but that."""
    update: Annotated[Literal["host", "device"], KeepOrigin] = "host"
    """Where the optimiser steps: on the host's cores (DeepSpeed's CPU-Adam), or on the device, through which all states then pass."""

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, data: Any) -> Any:
        return _entries(data) if isinstance(data, str) else data

    def __str__(self) -> str:
        """The entries that differ from the defaults, as they may be written; `none` where nothing leaves."""
        plain = type(self).model_fields
        given = ((name, getattr(self, name)) for name in plain)
        return "+".join(f"{name}={value}" for name, value in given if value != plain[name].default) or "none"

    def tier(self, state: str) -> Tier:
        """Where a state is kept."""
        tier: Tier = getattr(self, state)
        return tier

    def share(self, state: str) -> float:
        """Of a state, what leaves the device."""
        return 0.0 if self.tier(state) == "none" else float(getattr(self, f"{state}_fraction", 1.0))

    @property
    def tiers(self) -> frozenset[str]:
        """Where anything is kept beside the devices."""
        return frozenset(map(self.tier, STATES)) - {"none"}

    @property
    def updates_on_host(self) -> bool:
        """Whether the host's cores step the optimiser, of a part at least."""
        return self.optimizer != "none" and self.update == "host"

    def faults(self) -> Iterator[Fault]:
        """Entries that say something of a state that stays."""
        if self.gradients != "none" and self.optimizer == "none":
            message = "gradients go where they are used; offload the optimizer too, or leave them out"
            yield Fault("offload.gradients", message, self.gradients)
        for state, entry in (
            ("optimizer", "optimizer_fraction"), ("optimizer", "update"),
            ("activations", "activations_fraction"), ("activations", "tensors"),
        ):  # fmt: skip
            if entry in self.model_fields_set and self.tier(state) == "none":
                message = f"is of what stays on the device; give {state}=host, or leave it out"
                yield Fault(f"offload.{entry}", message, getattr(self, entry))


def _entries(text: str) -> dict[str, str | float]:
    """What a text says of each state; `none` says nothing of any."""
    words = [word.strip() for word in text.replace(",", "+").split("+")]
    if words == ["none"]:
        return {}
    pairs = [tuple(part.strip() for part in word.partition("=")[::2]) for word in words]
    known = tuple(Offload.model_fields)
    for name, value in pairs:
        if not (name and value):
            raise ValueError("must be entries such as optimizer=host+activations=host, or none")
        if name not in known:
            raise ValueError(f"knows no {name!r}{nearest(name, known) or '; it knows ' + ', '.join(known)}")
        if name in STATES and value not in get_args(get_args(Tier)[0]):
            raise ValueError(f"{name} must be none, host or nvme, not {value!r}")
    origin = origin_of(text)
    return {name: traced(_value(value), origin) if origin else _value(value) for name, value in pairs}


def _value(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


STAYS = Offload()
"""Of a strategy that offloads nothing."""
