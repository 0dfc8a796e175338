"""Low-rank adapters on frozen weights (LoRA)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from perfmodel.formulas.memory import block_quantised
from perfmodel.origin import KeepOrigin, Text
from perfmodel.specs.common import Size
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.units import Bytes

PRODUCTS = {"qkv": "attention qkv", "output": "attention output", "up": "mlp up", "down": "mlp down"}
"""Operations of a layer that may have an adapter, by the names of their modules."""

BASES = {
    "whole": None,
    "nf4": block_quantised(number=0.5, scale=4, block=64, outer=0, blocks=1),
    "nf4-double": block_quantised(number=0.5, scale=1, block=64, outer=4, blocks=256),
}
"""Bytes of a frozen weight, by how it is kept; None as it computes."""


class Adapters(Spec):
    """Two narrow products beside each of some products; they alone are trained, and all other weights are frozen."""

    rank: Size
    """Width between the two."""
    modules: Text = "qkv+output+up+down"
    """Products that have one, joined by `+`: qkv, output (of attention), up and down (of the perceptron)."""

    base: Annotated[Literal["whole", "nf4", "nf4-double"], KeepOrigin] = "whole"
    """How the products of the layers keep their frozen weights: whole, in 4 bits with a scale in fp32 for 64 of them, or with
    scales that are quantised again (QLoRA). Embedding, norms and head stay whole."""

    @property
    def stored(self) -> Bytes | None:
        """Bytes of a frozen weight; None as it computes."""
        return BASES[self.base]

    @property
    def products(self) -> frozenset[str]:
        """Names of the operations that have an adapter."""
        return frozenset(PRODUCTS[module] for module in self._named if module in PRODUCTS)

    @property
    def _named(self) -> frozenset[str]:
        return frozenset(str(self.modules).split("+"))

    def faults_beside(self, missing: frozenset[str], path: str) -> Iterator[Fault]:
        """Names that no product has, or none of a model whose layers have none of the ``missing`` ones."""
        for module in sorted(self._named & missing):
            yield Fault(
                f"{path}.modules",
                f"this model has no {module!r} outside of experts and latent attention; leave it out of modules",
                self.modules,
            )
        for unknown in sorted(self._named - PRODUCTS.keys()):
            yield Fault(
                f"{path}.modules", f"knows no {unknown!r}; join some of {', '.join(PRODUCTS)} with +", self.modules
            )
