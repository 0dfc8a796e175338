"""What is trained: a family of models with its shape, and how it is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from perfmodel.origin import Integer, KeepOrigin, Text
from perfmodel.specs.adapters import Adapters
from perfmodel.specs.common import Group, Positive, Precision, Share, Size, SpecFile
from perfmodel.specs.convnet import Convnet, Layer, convnet_faults
from perfmodel.specs.custom import Custom, OpSpec, custom_faults
from perfmodel.specs.experts import Experts, Latent, experts_faults
from perfmodel.specs.recommender import Recommender, recommender_faults
from perfmodel.specs.statespace import LETTERS, Part, StateSpace, pattern_faults
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Convnet",
    "Custom",
    "Experts",
    "Latent",
    "Layer",
    "OpSpec",
    "Patches",
    "Recommender",
    "StateSpace",
    "Training",
    "Transformer",
    "Workload",
]


Layers = Annotated[Integer, Field(gt=0, le=100_000)]


class Patches(Spec):
    """An image cut into square patches, each one token."""

    image: Size
    patch: Size
    channels: Size = 3


class Transformer(Group):
    """Blocks of attention and multilayer perceptron (GPT, Llama, BERT, T5, ViT), or layers by a pattern (Mamba-2, Nemotron-H)."""

    family: Literal["transformer"]
    layers: Layers
    """Blocks; in an encoder-decoder those of the encoder."""
    decoder_layers: Layers | None = None
    """Blocks with cross-attention on top of an encoder (T5)."""
    hidden: Size
    ffn_hidden: Size | None = None
    """Width inside the multilayer perceptron; default 4 x hidden."""
    heads: Size
    kv_heads: Size | None = None
    """Heads of keys and values; default all (fewer = grouped-query attention)."""
    head_dim: Size | None = None
    """Default hidden / heads."""
    vocabulary: Size | None = None
    patches: Patches | None = None
    """Instead of a vocabulary: the input is an image (ViT)."""
    classes: Size | None = None
    """Outputs of a classification head."""
    positions: Literal["learned", "rotary", "relative", "none"] = "learned"
    max_positions: Size | None = None
    """Rows of learned positions, or buckets of relative ones; default the sequence length."""
    token_types: Annotated[Integer, Field(ge=0)] = 0
    """Rows of the segment embedding (BERT)."""
    activation: Literal["gelu", "relu", "swiglu"] = "gelu"
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    final_norm: bool = True
    """A norm after the last block (pre-norm models)."""
    bias: bool = True
    """Linear layers have biases."""
    causal: bool = True
    """Each token attends to those before it only."""
    dropout: bool = True
    tied: bool = True
    """The output layer shares the weights of the token embedding."""
    pretraining_head: bool = False
    """BERT's pooler, next-sentence and masked-language heads."""
    predicted: Share = 1.0
    """Share of the positions whose output is computed; of BERT the masked ones."""
    experts: Experts | None = None
    """In the place of the multilayer perceptron, in some layers or all."""
    state_space: StateSpace | None = None
    """Layers that carry a state along the sequence in the place of attention."""
    pattern: Text | None = None
    """A letter for each layer, or for a part that repeats: M state space, * attention, - perceptron, E experts. Each has a norm and a
    residual of its own. None has attention, then perceptron or experts, in every layer."""
    latent: Latent | None = None
    """Attention whose queries, keys and values are made of narrow vectors; heads have widths of their own."""
    head_norm: bool = False
    """A norm of each head's queries and keys."""
    window: Size | None = None
    """Tokens that a query sees at most: sliding window attention. None sees all."""
    full_interval: Size | None = None
    """One layer in so many, the last of them, sees all tokens in spite of the window; None has no such layer."""
    future_tokens: Annotated[Integer, Field(ge=0)] = 0
    """Modules that each predict one token further ahead: a layer with norms and a projection of its own, and a second loss."""

    @property
    def ffn(self) -> int:
        """Width inside the multilayer perceptron."""
        return self.ffn_hidden or 4 * self.hidden

    @property
    def kv(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def head(self) -> int:
        """Width of one head's queries and keys."""
        if self.latent:
            return self.latent.nope + self.latent.rope
        return self.head_dim or self.hidden // self.heads

    def is_mixture(self, layer: int) -> bool:
        """Whether a layer, counted from 0, has experts."""
        return "mixture" in self.parts(layer)

    def parts(self, layer: int) -> tuple[Part, ...]:
        """What a layer, counted from 0, does in turn, each between a norm and a residual."""
        attention: Part = "windowed attention" if self.is_windowed(layer) else "attention"
        if self.pattern is None:
            mixed = self.experts is not None and self.experts.is_mixture(layer)
            return attention, "mixture" if mixed else "perceptron"
        part = LETTERS[self.pattern[layer % len(self.pattern)]]
        return (attention if part == "attention" else part,)

    @property
    def kinds(self) -> dict[tuple[Part, ...], tuple[int, ...]]:
        """Layers by what they do, in the order in which they first occur."""
        places: dict[tuple[Part, ...], list[int]] = {}
        for layer in range(self.layers):
            places.setdefault(self.parts(layer), []).append(layer)
        return {kind: tuple(layers) for kind, layers in places.items()}

    def has(self, part: Part) -> bool:
        """Whether any layer does this."""
        return any(part in kind for kind in self.kinds)

    @property
    def future(self) -> tuple[Part, ...]:
        """What a module that predicts further ahead does: as the last layer; of hybrid models attention, then experts or perceptron."""
        if self.pattern is None:
            return self.parts(self.layers - 1)
        return "attention", "mixture" if self.experts else "perceptron"

    def is_windowed(self, layer: int) -> bool:
        """Whether a layer sees no more than the window."""
        return self.window is not None and not (self.full_interval and (layer + 1) % self.full_interval == 0)


class Training(Group):
    """How it is trained."""

    batch: Size
    """Samples of one step, over all replicas."""
    sequence: Size | None = None
    """Tokens of one sample; of an image model none."""
    target_sequence: Size | None = None
    """Tokens of the decoder's side of one sample; default as `sequence`."""
    packed: Size | None = None
    """Tokens of a sample on average, where each sequence is packed of several that do not see one another; None: it is one sample."""
    optimizer: Literal["sgd", "momentum", "adagrad", "adam", "lamb"] = "adam"
    precision: Annotated[Precision, KeepOrigin]
    scales: Literal["tensor", "row"] = "tensor"
    """Of fp8 and fp4: one for each operand of a product, or one for each of its rows (torchao's rowwise), for which an operand is cast
    anew for each product that takes it, and what tensor parallelism gathers travels wide. Experts keep the former."""
    adapters: Adapters | None = None
    """Low-rank adapters that are trained in the place of the weights (LoRA); None trains all weights."""
    tokens: Positive | None = None
    """Of the whole training, for its time and price; or"""
    samples: Positive | None = None
    """so many samples."""


class Workload(SpecFile):
    """A model and its training."""

    model: Annotated[Transformer | Convnet | Custom | Recommender, Field(discriminator="family")]
    training: Training

    def faults(self) -> Iterator[Fault]:
        """Also: shapes that contradict themselves."""
        yield from super().faults()
        yield from self._length_faults()
        yield from self._adapter_faults()
        if isinstance(self.model, Transformer):
            yield from self._transformer_faults(self.model)
        elif isinstance(self.model, Convnet):
            yield from convnet_faults(self.model, "model")
        elif isinstance(self.model, Recommender):
            yield from recommender_faults(self.model, "model")
        else:
            yield from custom_faults(self.model, "model")

    def _length_faults(self) -> Iterator[Fault]:
        training = self.training
        if training.tokens is not None and training.samples is not None:
            message = "stands beside samples; the length of the training is given once"
            yield Fault("training.tokens", message, training.tokens)
        elif training.tokens is not None and training.sequence is None:
            yield Fault("training.tokens", "this model has no tokens; give samples", training.tokens)
        if isinstance(self.model, Convnet | Recommender) and training.sequence is not None:
            yield Fault("training.sequence", "this model has no sequences; leave it out", training.sequence)
        if training.packed is not None and training.packed > (training.sequence or 0):
            message = (
                f"are more tokens than the sequence of {training.sequence} has room for; leave it out, or give fewer"
            )
            yield Fault("training.packed", message, training.packed)

    def _adapter_faults(self) -> Iterator[Fault]:
        adapters = self.training.adapters
        if adapters is None:
            return
        m = self.model
        if not isinstance(m, Transformer) or not m.vocabulary:
            yield Fault("training.adapters", "are for language models alone; leave them out", None)
            return
        if any(True for _ in pattern_faults(m)):
            return
        missing = set() if m.has("perceptron") else {"up", "down"}
        if m.latent or not (m.has("attention") or m.has("windowed attention")):
            missing.add("qkv")
        yield from adapters.faults_beside(frozenset(missing), "training.adapters")
        if m.experts and adapters.stored is not None:
            yield Fault("training.adapters.base", "experts are kept whole alone; take base whole", adapters.base)

    def _transformer_faults(self, model: Transformer) -> Iterator[Fault]:
        if model.head_dim is None and model.latent is None and model.hidden % model.heads:
            yield Fault(
                "model.heads", f"{model.heads} heads do not divide hidden {model.hidden}; give head_dim", model.heads
            )
        if model.heads % model.kv:
            yield Fault("model.kv_heads", f"{model.kv} does not divide the {model.heads} heads", model.kv_heads)
        if (model.vocabulary is None) == (model.patches is None):
            yield Fault("model", "needs either a vocabulary or patches")
        if model.patches and model.patches.image % model.patches.patch:
            yield Fault(
                "model.patches.patch", f"does not divide the image of {model.patches.image}", model.patches.patch
            )
        if model.experts:
            yield from experts_faults(model.experts, model.layers, "model.experts")
        yield from pattern_faults(model)
        yield from _feature_faults(model)
        if model.vocabulary and self.training.sequence is None:
            yield Fault("training", "needs a sequence length")
        if model.patches and self.training.sequence is not None:
            yield Fault("training.sequence", "an image has none; leave it out", self.training.sequence)


def _feature_faults(model: Transformer) -> Iterator[Fault]:
    """Features that only a decoder without an encoder has, and some that exclude one another."""
    decoder = model.vocabulary is not None and model.causal and not model.decoder_layers
    for name in ("experts", "latent", "window", "future_tokens", "pattern", "state_space"):
        if getattr(model, name) and not decoder:
            yield Fault(f"model.{name}", "is for decoders alone", getattr(model, name))
    if model.full_interval and not model.window:
        yield Fault("model.full_interval", "without a window every layer sees all; leave it out", model.full_interval)
    if model.latent:
        for name, value in (("kv_heads", model.kv_heads), ("head_dim", model.head_dim)):
            if value is not None:
                yield Fault(f"model.{name}", "follows from latent; leave it out", value)
        if model.positions != "rotary":
            yield Fault("model.positions", "of latent attention are rotary", None)
        if model.head_norm:
            yield Fault("model.head_norm", "latent attention has norms of its own; leave it out", None)


def sequence_of(model: Transformer, training: Training) -> int:
    """Tokens of one sample: as given, or the patches of an image and the class token."""
    if model.patches:
        return (model.patches.image // model.patches.patch) ** 2 + 1
    return int(training.sequence or 0)
