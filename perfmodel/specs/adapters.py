"""Low-rank adapters on frozen weights (LoRA)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.origin import Text
from perfmodel.specs.common import Size
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCTS = {
    "qkv": ("attention qkv",),
    "output": ("attention output",),
    "up": ("mlp up",),
    "down": ("mlp down",),
}  # fmt: skip
"""Operations of a layer that may have an adapter, by the names of their modules."""


class Adapters(Spec):
    """Two narrow products beside each of some products; they alone are trained, and all other weights are frozen."""

    rank: Size
    """Width between the two."""
    modules: Text = "qkv+output+up+down"
    """Products that have one, joined by `+`: qkv, output (of attention), up and down (of the perceptron)."""

    @property
    def products(self) -> frozenset[str]:
        """Names of the operations that have an adapter."""
        return frozenset(name for module in self._named for name in PRODUCTS.get(module, ()))

    @property
    def _named(self) -> frozenset[str]:
        return frozenset(str(self.modules).split("+"))

    def unknown_modules(self, path: str) -> Iterator[Fault]:
        """Names that no product has."""
        for unknown in sorted(self._named - PRODUCTS.keys()):
            yield Fault(
                f"{path}.modules", f"knows no {unknown!r}; join some of {', '.join(PRODUCTS)} with +", self.modules
            )
