"""A model cut in two, each half on a process of its own: microbatches through gloo's sends, all forward, then all backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from models import HIDDEN, TOKENS, WORDS, Gpt
from torch import distributed, nn
from torch.nn.functional import cross_entropy


class First(nn.Module):
    """Embeddings and the first half of the layers."""

    def __init__(self, whole: Gpt) -> None:
        """Take them from a whole model."""
        super().__init__()
        self.words, self.places = whole.words, whole.places
        self.layers = whole.layers[: len(whole.layers) // 2]

    def forward(self, tokens: Any) -> Any:
        """What the second half gets."""
        return self.layers(self.words(tokens) + self.places(torch.arange(tokens.shape[1])))


class Second(nn.Module):
    """The other half, the last norm, and a copy of the tied output layer."""

    def __init__(self, whole: Gpt) -> None:
        """Take them from a whole model."""
        super().__init__()
        self.words, self.norm = whole.words, whole.norm
        self.layers = whole.layers[len(whole.layers) // 2 :]

    def forward(self, x: Any) -> Any:
        """Logits of each token."""
        return (self.norm(self.layers(x)) @ self.words.weight.T).flatten(0, 1)


@dataclass(frozen=True, slots=True)
class Stage:
    """One of the two processes."""

    rank: int
    half: nn.Module
    microbatches: int
    microbatch: int

    def passes(self) -> None:
        """Forward and backward of all microbatches, then the sum of the tied gradients."""
        (self._first if self.rank == 0 else self._second)()
        distributed.all_reduce(self.half.words.weight.grad)

    def _first(self) -> None:
        kept = []
        for _ in range(self.microbatches):
            kept.append(self.half(torch.randint(WORDS, (self.microbatch, TOKENS))))
            distributed.send(kept[-1].detach(), 1)
        for x in kept:
            gradient = torch.empty_like(x)
            distributed.recv(gradient, 1)
            x.backward(gradient)

    def _second(self) -> None:
        kept = []
        for _ in range(self.microbatches):
            x = torch.empty(self.microbatch, TOKENS, HIDDEN)
            distributed.recv(x, 0)
            x.requires_grad_()
            answers = torch.randint(WORDS, (self.microbatch * TOKENS,))
            kept.append((x, cross_entropy(self.half(x), answers)))
        for x, loss in kept:
            loss.backward()
            distributed.send(x.grad, 0)


def stage_of(rank: int, microbatches: int, microbatch: int) -> Stage:
    """Half of the small GPT."""
    torch.manual_seed(0)
    whole = Gpt()
    return Stage(rank, First(whole) if rank == 0 else Second(whole), microbatches, microbatch)
