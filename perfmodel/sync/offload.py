"""What replicas copy to and from their hosts where states are offloaded, and their update there.

ZeRO-Offload (arXiv:2101.06840) and ZeRO-Infinity (arXiv:2104.07857) on top of any sharding: each rank copies the part that it
keeps, over its own link, before it is gathered or after it was scattered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.cost.offload import HostSide
from perfmodel.parallel.expert import ExpertGroups
from perfmodel.timeline import Overlap, Part

if TYPE_CHECKING:
    from perfmodel.specs.offload import Offload
    from perfmodel.specs.sharding import Scope
    from perfmodel.sync.replicas import Replicas
    from perfmodel.units import Count

Parts = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Swaps:
    """Copies of the states of one device."""

    replicas: Replicas

    @property
    def loads(self) -> Parts:
        """Weights for a forward pass."""
        r = self.replicas
        size = _part(r, r.parameters, r.experts, r.strategy.sharding.parameters) * r.state.weight
        return () if self._off.parameters == "none" else (self._side.back("weights", size, self._off.parameters),)

    @property
    def reloads(self) -> Parts:
        """Weights for a backward pass, and for its recomputation where they are dropped in between."""
        again = self.replicas.strategy.weight_regather and self.replicas.strategy.recompute == "full"
        return self.loads * (1 + again)

    @property
    def stores(self) -> Parts:
        """Gradients of a microbatch, where none stay."""
        size = self._trained(self.replicas.strategy.sharding.gradients) * self.replicas.state.gradient
        return () if self._off.gradients == "none" else (self._side.out("gradients", size, self._off.gradients),)

    @property
    def drains(self) -> Parts:
        """Sums of gradients that have stayed so far, as the last backward pass makes them."""
        if not self._off.updates_on_host or self._off.gradients != "none":
            return ()
        return (self._side.out("gradients", self._left * self.replicas.state.gradient, "host"),)

    def update(self) -> Part:
        """The optimiser's step: the device's part and the host's at once, or all on the device with the states passing through."""
        far, r, off = self.replicas.strategy.sharding.optimizer, self.replicas, self._off
        own = self.replicas.layout.parts(far), ExpertGroups(r.layout).parts(far)
        if off.optimizer == "none":
            return r.optimizer_step(*own)
        states = self._left * r.state.optimizer
        if off.update == "device":
            ways = self._side.back("states", states, off.optimizer), self._side.out("states", states, off.optimizer)
            return Overlap("update", (r.optimizer_step(*own), *ways))
        weights = self._left * r.state.weight
        there = self._side.update(
            self._left, r.state.host_traffic, states=states * (off.optimizer == "nvme"),
            weights=0.0 if off.parameters != "none" else weights, tier=off.optimizer,
        )  # fmt: skip
        stays = 1 - off.share("optimizer")
        return Overlap("update", (r.optimizer_step(*own, share=stays), there)) if stays else there

    @property
    def _off(self) -> Offload:
        return self.replicas.strategy.keeps_off

    @property
    def _side(self) -> HostSide:
        return HostSide(self.replicas.hardware.host, self.replicas.layout.devices)

    @property
    def _left(self) -> Count:
        """Parameters whose states the host keeps for this device."""
        return self._trained(self.replicas.strategy.sharding.optimizer) * self._off.share("optimizer")

    def _trained(self, scope: Scope) -> Count:
        """Of the parameters that are trained, those of which this device keeps a state that is spread so far."""
        r = self.replicas
        return _part(r, r.trained, r.trained_experts, scope)


def _part(r: Replicas, parameters: Count, experts: Count, scope: Scope) -> Count:
    """Of the parameters of one device, experts among them, its part of what is spread so far."""
    return (parameters - experts) / r.layout.parts(scope) + experts / ExpertGroups(r.layout).parts(scope)
