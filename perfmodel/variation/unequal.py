"""A prediction of a batch whose sequences differ in length: padding, packing, ranks that wait for the longest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.errors import InputError, Place, Problem
from perfmodel.formulas.mitigation import straggler_delay
from perfmodel.formulas.uneven import padding_time
from perfmodel.origin import place_of
from perfmodel.specs.workload import Transformer
from perfmodel.timeline import Serial, duration, term
from perfmodel.variation.dealing import Deal
from perfmodel.variation.lengths import Lengths
from perfmodel.variation.pipelined import Pipeline
from perfmodel.variation.reweigh import base_of, loaded
from perfmodel.variation.sorts import at_length, priced
from perfmodel.variation.varied import Sequences, Varied, varied

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from perfmodel.specs.lengths import UnequalSequences
    from perfmodel.timeline import Part, Term
    from perfmodel.variation.reweigh import Base

    Array = NDArray[np.float64]

PADDING, IMBALANCE = "padding", "sequence imbalance"
"""Kinds of the terms that differing sequences add to a step."""


def with_lengths(prediction: Varied, section: UnequalSequences, name: str) -> Varied:
    """The step of sequences of several lengths.

    The batch counts sequences, or rows where they are packed; memory is that of the longest row. Raises InputError where the
    workload has no such sequences, or none so long.
    """
    row = _row(prediction)
    lengths = Lengths.given(section.distribution, row)
    _check(prediction, section, lengths, row)
    deal = _deal(prediction, section, lengths, row)
    held, useful, padded = _trees(prediction, deal)
    padding = term("padding", padding_time, kind=PADDING, padded=duration(padded), useful=duration(useful))
    if padding.time <= 0:  # tiles are cut so that odd lengths may take longer than the next even one
        useful, padding = padded, replace(padding, time=0.0)
    base = base_of(padded)
    time = base.compute + base.inner + base.bubble
    last, error = deal.expected(base.compute + base.inner, base.bubble)
    waiting = term(
        "waiting for long sequences", straggler_delay, kind=IMBALANCE, time=time, factor=max(last / time, 1.0)
    )
    terms = tuple(each for each in (padding, waiting) if each.time > 0)
    tree = Serial("step of unequal sequences", (useful, *terms)) if terms else useful
    return replace(held, tree=tree, sequences=_outcome(deal, name, tree, padding, waiting, base, error))


def drawn_with_lengths(made: Varied, steps: int, random: Generator) -> Array:
    """So many steps, each with sequences of its own."""
    given = made.sequences
    if given is None:
        raise ValueError("a prediction of equal sequences has nothing to draw")
    once = given.step_time - given.waiting_time - given.working - given.bubble
    return once + given.deal.draw(given.working, given.bubble, steps, random)


def _row(prediction: Varied) -> float:
    model, training = prediction.workload.model, prediction.workload.training
    if not isinstance(model, Transformer) or training.sequence is None or model.decoder_layers:
        message = f"needs a transformer with one kind of sequence, which {prediction.workload.name} has not"
        raise InputError([Problem(Place("--lengths"), "", message)])
    return float(training.sequence)


def _check(prediction: Varied, section: UnequalSequences, lengths: Lengths, row: float) -> None:
    problems = []
    longest = float(lengths.values[-1])
    if longest > row:
        message = f"{longest:,.0f} tokens are more than the {row:,.0f} of a sequence of the workload; raise --seq, or cut them"
        problems.append(Problem(place_of(section.source, Place("--lengths")), "lengths.distribution", message))
    if section.rows == "packed" and prediction.strategy.attention == "unfused":
        message = (
            "unfused attention computes whole rows, other sequences included; take --attention flash, or other rows"
        )
        problems.append(Problem(place_of(section.rows, Place("--lengths")), "lengths.rows", message))
    if section.context == "by-length" and _in_step(prediction) > 1:
        message = "gives ranks microbatches of several numbers, which cannot gather weights or exchange tokens in each; take --zero 1, ep 1"
        problems.append(Problem(place_of(section.context, Place("--lengths")), "lengths.context", message))
    if problems:
        raise InputError(problems)


def _deal(prediction: Varied, section: UnequalSequences, lengths: Lengths, row: float) -> Deal:
    """Who gets which sequences."""
    layout, by_length = prediction.layout, section.context == "by-length"
    sorts = priced(prediction, lengths.values, row if section.rows == "packed" else None, by_length=by_length)
    return Deal(
        lengths, sorts, rows=str(section.rows), assignment=str(section.assignment), row=row,
        ranks=int(layout.dp * layout.cp if by_length else layout.dp), in_step=_in_step(prediction),
        pipeline=Pipeline.of(prediction) if layout.pp > 1 else None,
        microbatch=int(layout.microbatch), microbatches=int(layout.batch / layout.microbatch), by_length=by_length,
    )  # fmt: skip


def _in_step(prediction: Varied) -> int:
    """Replicas that exchange something in every microbatch: shards of weights, tokens for experts."""
    layout = prediction.layout
    spread = {"N": 1, "I": layout.shard_group / layout.cp, "G": layout.dp}
    shards = spread[prediction.strategy.sharding.parameters]
    experts = layout.ep * layout.etp / (layout.tp * layout.cp)
    return max(int(shards), int(experts), 1)


def _trees(prediction: Varied, deal: Deal) -> tuple[Varied, Part, Part]:
    """The prediction whose memory counts, and the trees of a step without and with its padding."""
    useful = deal.sorts.mixture(deal.shares)
    match deal.rows:
        case "packed":
            shortest = np.eye(len(deal.shares))[0]
            padded = deal.sorts.mixture(deal.filled * deal.shares + (1 - deal.filled) * shortest)
            return prediction, loaded(useful, deal.filled, 1.0), padded
        case "sequence":
            return prediction, useful, prediction.tree
        case _:
            padded = deal.sorts.mixture(deal.sorts.shares(deal.padded.values, deal.padded.shares))
            longest = varied(at_length(prediction, float(deal.lengths.values[-1])))
            return longest, useful, padded


def _outcome(deal: Deal, name: str, tree: Part, padding: Term, waiting: Term, base: Base, error: float) -> Sequences:
    return Sequences(
        name, deal, step_time=float(duration(tree)), padding=deal.padding_share, padding_time=float(padding.time),
        slowest=float(waiting.inputs["factor"]), waiting_time=float(waiting.time), working=base.compute + base.inner, bubble=base.bubble, error=error,
    )  # fmt: skip
