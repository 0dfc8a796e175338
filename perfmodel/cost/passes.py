"""The passes of one microbatch through blocks: kernels and messages in order, as parts of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from perfmodel.cost.communication import exchange, started
from perfmodel.formulas.host import dispatch
from perfmodel.graph.flops import is_unfused
from perfmodel.graph.kernels import Gemm, Stream
from perfmodel.graph.ops import Experts
from perfmodel.graph.recomputation import repeated
from perfmodel.parallel.messages import ELSEWHERE
from perfmodel.timeline import Overlap, Part, Repeat, Serial, launches, term

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfmodel.cost.compute import Processor
    from perfmodel.graph.kernels import Kernel
    from perfmodel.graph.ops import Op
    from perfmodel.parallel import LocalBlock, LocalOp, Message
    from perfmodel.parallel.sharded_state import State
    from perfmodel.specs import Strategy
    from perfmodel.specs.hardware import Host
    from perfmodel.specs.network import Tier
    from perfmodel.specs.strategy import Recompute
    from perfmodel.units import Count

    Mixtures = list[tuple[Count, LocalOp, Experts]]

Way = Literal["forward", "backward"]


@dataclass(frozen=True, slots=True)
class Passes:
    """Prices the forward and backward pass of blocks on one machine."""

    processor: Processor
    network: tuple[Tier, ...]
    host: Host
    strategy: Strategy
    state: State
    """Bytes for each parameter."""

    def forward(self, blocks: Iterable[LocalBlock]) -> Part:
        """All operations of the blocks, in order."""
        blocks = tuple(blocks)
        serial = Serial(
            "forward",
            tuple(
                self._along_block(self._repeat(b, [self._forward(op) for op in b.ops]), blocks, backward=False)
                for b in blocks
            ),
        )
        part = self._launched(serial, blocks, "forward")
        return self._beside(part, blocks, "forward")

    def backward(self, blocks: Iterable[LocalBlock], *, recompute: bool = True) -> Part:
        """Gradients in reverse order; the blocks of the body first recompute what the strategy dropped."""
        again: Recompute = self.strategy.recompute if recompute else "none"
        modules = self.strategy.modules if recompute else frozenset()
        blocks = tuple(blocks)
        serial = Serial(
            "backward",
            tuple(
                self._along_block(self._backward_block(block, again, modules), blocks, backward=True)
                for block in blocks
            ),
        )
        ways: tuple[Way, ...] = ("backward", "forward") if again == "full" else ("backward",)
        part = self._launched(serial, blocks, *ways)
        return self._beside(part, blocks, "backward", again)

    def _launched(self, part: Serial, blocks: tuple[LocalBlock, ...], *ways: Way) -> Part:
        """A pass that goes through layers in so many ways, beside the host that launches its kernels."""
        framework = self.strategy.framework
        if framework is None or framework.dispatch is None:
            return part
        mixtures = [(b.repeat, local, local.op) for b in blocks for local in b.ops if isinstance(local.op, Experts)]
        calls, time, speed = self._launches(part, mixtures, ways), framework.dispatch, self.host.launcher.speed
        host: Part = term("dispatch", dispatch, kind="host", launches=calls, time=time, speed=speed)
        if mixtures and self.strategy.expert_kernels == "each":
            looped, loop = self._looped(mixtures, ways), time if framework.loop is None else framework.loop
            loops = term("dispatch in loops", dispatch, kind="host", launches=looped, time=loop, speed=speed)
            host = Serial("host", (host, loops))
        return Overlap(part.name, (part, host))

    def _launches(self, part: Serial, mixtures: Mixtures, ways: tuple[Way, ...]) -> Count:
        """What a host launches call by call: all, or experts and their messages alone, where graphs hold the rest."""
        if self.strategy.launched == "all":
            return launches(part)
        return sum((count * _launched_alone(local, way) for count, local, _ in mixtures for way in ways), 0.0)

    def _looped(self, mixtures: Mixtures, ways: tuple[Way, ...]) -> Count:
        """What calls launch beyond their first kernel, where each expert has products of its own."""
        return sum((count * op.launches(backward=way == "backward") for count, _, op in mixtures for way in ways), 0.0)

    def _beside(self, part: Part, blocks: tuple[LocalBlock, ...], name: str, again: Recompute = "none") -> Part:
        """A pass with the messages that travel beside those of another microbatch, in the same proportion."""
        beside = []
        for block in blocks:
            sent = [m for op in block.ops for m in (op.backward if name == "backward" else op.forward)]
            sent += [m for op in block.ops if _is_recomputed(op, again) for m in op.forward]
            parts = tuple(self.message(m) for m in sent if m.under == ELSEWHERE)
            beside += [Repeat(block.name, Serial(block.name, parts), block.repeat)] if parts else []
        if not beside:
            return part
        return Overlap(name, (part, Serial(f"{name} messages", tuple(beside))), self.processor.slowdown)

    def _along_block(self, block: Repeat, blocks: tuple[LocalBlock, ...], *, backward: bool) -> Part:
        """A block with the messages of others that travel beside all of it."""
        sent = (m for b in blocks for op in b.ops for m in (op.backward if backward else op.forward))
        beside = [m for m in sent if m.under == block.name]
        return self._together(block.name, block, beside, "") if beside else block

    def _backward_block(self, block: LocalBlock, again: Recompute, modules: frozenset[str]) -> Repeat:
        recomputed: list[Part] = [
            self._forward(op, "recompute ", "recompute") for op in block.ops if _is_recomputed(op, again)
        ]
        repeats = [k for op in block.ops for k in repeated(op.op, modules)]
        recomputed += [self.processor.time(kernel, "recompute ", "recompute") for kernel in repeats]
        left = block.gradients - sum(self._added_by_products(local.op) for local in block.ops)
        add = self.processor.time(Stream("gradient accumulation", self.state.accumulate_traffic * left))
        adds = (add,) if np.any(np.asarray(left) > 0) else ()
        return self._repeat(block, [*recomputed, *(self._backward(op) for op in reversed(block.ops)), *adds])

    def _repeat(self, block: LocalBlock, parts: list[Part]) -> Repeat:
        return Repeat(block.name, Serial(block.name, tuple(parts)), block.repeat)

    def _forward(self, local: LocalOp, prefix: str = "", kind: str = "") -> Serial:
        return self._mixed(local.op.name, local.op.forward(), local.forward, prefix, kind)

    def _backward(self, local: LocalOp) -> Serial:
        return self._mixed(f"{local.op.name} backward", tuple(map(self._adding, local.op.backward())), local.backward)

    def _adding(self, kernel: Kernel) -> Kernel:
        """A product that adds the gradient of its weights to the sum, where the framework has such kernels."""
        if self.state.epilogue_traffic is None or not isinstance(kernel, Gemm) or not kernel.is_weight_gradient:
            return kernel
        return replace(kernel, output=self.state.epilogue_traffic)

    def _added_by_products(self, op: Op) -> Count:
        """Elements of gradients that need no kernel of their own to be added."""
        added = (k for k in op.backward() if isinstance(k, Gemm) and k.is_weight_gradient)
        return 0 if self.state.epilogue_traffic is None else sum(k.rows * k.columns * k.count for k in added)

    def _mixed(
        self, name: str, kernels: tuple[Kernel, ...], messages: tuple[Message, ...], prefix: str = "", kind: str = ""
    ) -> Serial:
        """Kernels with the messages that travel beside them, then the messages that nothing hides."""
        parts: list[Part] = []
        for kernel in kernels:
            beside = [m for m in messages if m.under == kernel.name]
            parts.extend(self._along(kernel, beside, prefix, kind))
        parts.extend(self._alone(m, prefix) for m in messages if not m.under)
        return Serial(name, tuple(parts))

    def _along(self, kernel: Kernel, messages: list[Message], prefix: str, kind: str) -> list[Part]:
        """A kernel with the messages beside it: beside all of it, or beside so many of its repetitions."""
        time = self._cut(kernel, messages, prefix, kind)
        rounds = [m.rounds for m in messages if m.rounds is not None]
        if not rounds or not isinstance(time, Repeat):
            return [self._together(kernel.name, time, messages, prefix)]
        one = [self._together(kernel.name, time.part, [m], prefix) for m in messages]
        alone = Repeat(kernel.name, time.part, time.count - sum(rounds))
        return [*(Repeat(kernel.name, *each) for each in zip(one, rounds, strict=True)), alone]

    def _cut(self, kernel: Kernel, messages: list[Message], prefix: str, kind: str) -> Part:
        """A kernel, or the smaller ones that compute what messages in pieces bring or take."""
        pieces = next((m.pieces for m in messages if np.any(np.asarray(m.pieces) > 1)), None)
        if pieces is None or not isinstance(kernel, Gemm):
            return self.processor.time(kernel, prefix, kind)
        one = self.processor.time(replace(kernel, rows=kernel.rows / pieces), prefix, kind)
        return Repeat(kernel.name, one, pieces, one_call=True)

    def _together(self, name: str, time: Part, messages: list[Message], prefix: str) -> Part:
        beside = tuple(self.message(m, prefix) for m in messages)
        return Overlap(name, (time, *beside), self.processor.slowdown) if beside else time

    def _alone(self, message: Message, prefix: str) -> Part:
        sent = self.message(message, prefix)
        return sent if message.rounds is None else Repeat(message.name, sent, message.rounds)

    def message(self, message: Message, prefix: str = "") -> Part:
        """One message; its kind is the first word of its name."""
        sent = exchange(message, self.network, kind=f"{message.name.partition(' ')[0]} parallel", prefix=prefix)
        return started(sent, self.strategy, message.group.size)


def _launched_alone(local: LocalOp, way: Way) -> int:
    """Kernels and messages of one operation."""
    if way == "backward":
        return len(local.op.backward()) + len(local.backward)
    return len(local.op.forward()) + len(local.forward)


def _is_recomputed(local: LocalOp, again: Recompute) -> bool:
    return again == "full" or (again == "selective" and is_unfused(local.op))
