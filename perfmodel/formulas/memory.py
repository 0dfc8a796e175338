"""Bytes that a stage of the model holds."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Bytes, Count


def in_flight_1f1b(*, stage: Count, stages: Count, chunks: Count, microbatches: Count) -> Count:
    r"""Microbatches, in units of a whole stage, whose activations a stage keeps at its fullest.

    .. math:: \begin{cases} \min(m, p - s) & v = 1 \\
              \min\left(m, \frac{p (v - 1) + 1 + 2 (p - s - 1)}{v}\right) & v > 1 \end{cases}

    Args:
        stage: s, counted from 0.
        stages: p.
        chunks: v, model chunks on each stage.
        microbatches: m.

    Assumes that the warm-up runs as many forward passes as Megatron-LM's schedules do.

    References:
        Narayanan et al., SC 2021, section 2.2. For s = 0 the interleaved form is the factor
        1 + (p - 1)/(p v) of Korthikanti et al., 2022 (arXiv:2205.05198), section 4.2.3, times p.

    >>> float(in_flight_1f1b(stage=0, stages=8, chunks=1, microbatches=64))
    8.0
    >>> round(float(in_flight_1f1b(stage=0, stages=8, chunks=3, microbatches=64)), 4)
    10.3333
    """
    interleaved = (stages * (chunks - 1) + 1 + 2 * (stages - stage - 1)) / chunks
    return np.minimum(microbatches, np.where(np.asarray(chunks) > 1, interleaved, stages - stage))


def sharded(*, size: Bytes, ranks: Count, on: Count) -> Bytes:
    r"""A state that ZeRO spreads over the replicas, or that each replica keeps whole.

    .. math:: M = \begin{cases} n / d & \text{sharded} \\ n & \text{otherwise} \end{cases}

    Args:
        size: n.
        ranks: d, replicas that share it.
        on: 1 where the state is sharded, else 0.

    References:
        Rajbhandari, Rasley, Ruwase, He, ZeRO: memory optimizations toward training trillion
        parameter models, SC 2020, section 5. arXiv:1910.02054

    >>> float(sharded(size=12e9, ranks=4, on=1))
    3000000000.0
    """
    return np.where(np.asarray(on) > 0, size / ranks, size)


def logits_memory(*, rows: Count, vocabulary: Count, element: Bytes, wide: Bytes, copies: Count) -> Bytes:
    r"""Logits of a vocabulary as the output layer makes them, and their fp32 copies in softmax and loss.

    .. math:: n V (e + w c)

    Args:
        rows: n, positions whose output is computed.
        vocabulary: V, words on this device.
        element: e, bytes of one number as the output layer makes it.
        wide: w, bytes of one in the loss, 4 of fp32.
        copies: c, so wide, that exist at once.

    References:
        Megatron-LM, megatron/core/tensor_parallel/cross_entropy.py (one copy, on which softmax and gradient work in
        place); nanotron, parallel/tensor_parallel/functional.py (two: the cast, and the difference to the maximum).

    >>> logits_memory(rows=4096, vocabulary=128256, element=2, wide=4, copies=1) / 2**30
    2.935546875
    """
    return rows * vocabulary * (element + wide * copies)


def gathered_weights(*, layer: Count, ends: Count, element: Bytes) -> Bytes:
    r"""Weights that are whole on a device for a while, though each rank keeps a part.

    .. math:: (2 l + r) e

    Args:
        layer: l, parameters of one layer: that which computes, and the next one, gathered beside it.
        ends: r, parameters of embedding and head on this stage, which stay whole from forward to backward.
        element: e, bytes of a weight that computes.

    Assumes one unit for each layer and one for the rest, and that one unit is gathered ahead.

    References:
        Zhao et al., PyTorch FSDP, VLDB 2023 (arXiv:2304.11277), section 3.3 (units, prefetching, rate limiter that
        admits two all-gathers).

    >>> gathered_weights(layer=200e6, ends=500e6, element=2) / 1e9
    1.8
    """
    return (2 * layer + ends) * element


def block_quantised(*, number: Bytes, scale: Bytes, block: Count, outer: Bytes, blocks: Count) -> Bytes:
    r"""A weight of few bits, with its part of the scale of its block and of the scale of the scales.

    .. math:: n + \frac{1}{B} \left(s + \frac{o}{B_2}\right)

    Args:
        number: n, bytes of the number itself, 0.5 of NF4.
        scale: s, bytes of the scale of a block.
        block: B, weights of one scale.
        outer: o, bytes of the scale that several scales share; 0 where each is kept as it is.
        blocks: B_2, scales of one such.

    References:
        bitsandbytes, functional.py, quantize_4bit: 64 weights share a scale in fp32, or one in 8 bits, of which 256 share one in
        fp32 (`compress_statistics`). The method is QLoRA's (Dettmers et al., 2023, arXiv:2305.14314); the sum is derived.

    >>> block_quantised(number=0.5, scale=4, block=64, outer=0, blocks=1) * 8
    4.5
    >>> round(block_quantised(number=0.5, scale=1, block=64, outer=4, blocks=256) * 8, 3)
    4.127
    """
    return number + (scale + outer / blocks) / block


def reserved_memory(*, allocated: Bytes, share: Count, outside: Bytes) -> Bytes:
    r"""Memory that a process has taken from a device.

    .. math:: (1 + f) a + c

    Args:
        allocated: a, bytes of tensors at the fullest moment.
        share: f, what the allocator holds beyond them, of them: free parts of blocks that no request has fitted.
        outside: c, that the allocator does not know of: context of the device, buffers of collectives.

    References:
        PyTorch documentation, CUDA semantics, memory management (reserved against allocated memory); the shares are
        fitted (derived).

    >>> reserved_memory(allocated=60e9, share=0.05, outside=1e9) / 1e9
    64.0
    """
    return (1 + share) * allocated + outside
