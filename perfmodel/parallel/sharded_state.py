"""What training holds for each parameter, and which of it ZeRO spreads over the replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.specs.common import ELEMENT_BYTES, STORED_BYTES

if TYPE_CHECKING:
    from perfmodel.specs import Strategy, Workload
    from perfmodel.units import Bytes

MOMENTS = {"sgd": 0, "momentum": 1, "adagrad": 1, "adam": 2, "lamb": 2}
"""fp32 states that an optimiser keeps for each parameter."""

SEPARATE = {"sgd": 3, "momentum": 11, "adagrad": 14, "adam": 35, "lamb": 35}
"""Numbers that the separate operations of an optimiser read and write for each parameter.

Of Adam as in NVIDIA's BertAdam: norm 1; clip 4; first moment 2 + 3, second 2 + 4; root 2, epsilon 2, quotient 3; decay 2 + 3;
learning rate 2; negative 2; sum 3. Of SGD with momentum as in PyTorch: decay 3, momentum 2 + 3, sum 3. Of Adagrad: decay 3, sum of squares 4, root 2, epsilon 2, quotient 3.
"""


@dataclass(frozen=True, slots=True)
class State:
    """Bytes for each parameter, as in ZeRO (Rajbhandari et al., 2020, section 3.1)."""

    weight: Bytes
    """The copy that computes."""
    gradient: Bytes
    """As it accumulates and travels."""
    optimizer: Bytes
    """fp32 master copy (where the weights are narrower) and moments; none where parameter servers hold them."""
    accumulate_traffic: Bytes
    """Memory traffic of a kernel that adds a microbatch's gradient to the sum."""
    epilogue_traffic: Bytes | None
    """That of the product which makes the gradient, where it adds it to the sum itself; None where it does not."""
    update_traffic: Bytes
    """Memory traffic of the optimiser step."""

    @property
    def host_traffic(self) -> Bytes:
        """That of the step on a host in one kernel: gradient read, states read and written, narrow weights written."""
        copy = self.weight if self.is_mixed else 2 * self.weight
        return self.gradient + 2 * self.optimizer + copy

    @property
    def is_mixed(self) -> bool:
        """Weights compute in a narrower precision than the optimiser updates."""
        return bool(self.weight < ELEMENT_BYTES["fp32"])


def state_of(workload: Workload, strategy: Strategy) -> State:
    """The state of one parameter: 2 + 4 + 12 bytes for Adam in mixed precision with fp32 gradients.

    A product that adds the gradient of its weights to the sum itself reads and writes the sum instead of writing the
    gradient; a kernel of its own reads all three. The optimiser step of Megatron-LM's mixed precision, each a pass of
    its own: widen the gradients where they are narrow, unscale, take the norm, clip, update master and
    moments, copy the weights, zero the gradients. Its passes are counted from the code of
    Megatron-LM's `optimizer.py` (derived).
    """
    weight = STORED_BYTES[workload.training.precision]
    mixed = weight < ELEMENT_BYTES["fp32"]
    gradient = 4.0 if strategy.gradient_precision == "fp32" else weight
    accumulate = 2 * gradient + weight
    epilogue = 2 * gradient if strategy.fused_accumulation else None
    moments = 4.0 * MOMENTS[workload.training.optimizer]
    held = 0.0 if strategy.sync == "parameter-server" and strategy.keeper.update == "servers" else 1.0
    if not mixed:
        fused = 2 * (weight + moments) + weight
        update = fused if strategy.optimizer == "fused" else 4.0 * SEPARATE[workload.training.optimizer]
        return State(weight, weight, held * moments, accumulate, epilogue, update_traffic=update + weight)
    widen = gradient + 4.0 if gradient < 4.0 else 0.0
    clip = 4.0 * (2 + 1 + 2)
    separate = strategy.optimizer == "separate"
    update = 4.0 * SEPARATE[workload.training.optimizer] if separate else 4.0 + 2 * (4.0 + moments)
    copy = 4.0 + weight
    states = moments * weight / 4.0 if strategy.allocates.narrow_states else 4.0 + moments
    return State(
        weight, gradient, optimizer=held * states, accumulate_traffic=accumulate,
        epilogue_traffic=epilogue, update_traffic=widen + clip + update + copy + gradient,
    )  # fmt: skip
