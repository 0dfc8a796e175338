"""Which state of training is spread over which ranks: one description, of which ZeRO, HSDP, MiCS and PaRO are cases."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import WrapValidator

from perfmodel.origin import origin_of, traced

Scope = Literal["N", "I", "G"]
"""No part of a state: each replica has it whole (N); one part for each member of the shard group (I), or for each replica (G)."""
SCOPES: tuple[Scope, ...] = ("N", "I", "G")
"""From the nearest to the furthest."""


class Sharding(NamedTuple):
    """How far each state is spread."""

    parameters: Scope
    gradients: Scope
    optimizer: Scope


STAGES = ("NNN", "NNI", "NII", "III")
"""The stages of ZeRO: nothing, optimiser states, also gradients, also parameters; over the shard group, by default all replicas."""
USEFUL = tuple(
    f"{p}{g}{o}"
    for o in SCOPES
    for p in SCOPES
    for g in SCOPES
    if max(SCOPES.index(p), SCOPES.index(g)) <= SCOPES.index(o)
)
"""Parameters, gradients and optimiser states: 14 of 27, where no device updates what it lacks the gradient or the place for."""


def sharding_of(zero: int | str) -> Sharding:
    """What a stage of ZeRO, or three letters, stand for.

    >>> sharding_of(2)
    Sharding(parameters='N', gradients='I', optimizer='I')
    """
    text = zero if isinstance(zero, str) else STAGES[zero]
    parameters, gradients, optimizer = (SCOPES["NIG".index(letter)] for letter in text)
    return Sharding(parameters, gradients, optimizer)


def _zero(value: Any, _handler: Any) -> Any:
    """A stage, or three letters; those that are a stage become its number, so that each sharding is written in one way."""
    known = value if isinstance(value, str) else STAGES[value] if value in range(4) and type(value) is not bool else ""
    if known in STAGES:
        return _as_read(STAGES.index(known), value)
    if known not in USEFUL:
        raise ValueError(
            "must be 0 to 3, or how far parameters, gradients and optimizer are spread, the last as far as the others:"
            " N whole, I over the shard group, G over all replicas; as IIG"
        )
    return _as_read(known, value)


def _as_read(made: int | str, value: Any) -> Any:
    origin = origin_of(value)
    return traced(made, origin) if origin else made


Zero: TypeAlias = Annotated[int | str, WrapValidator(_zero)]
