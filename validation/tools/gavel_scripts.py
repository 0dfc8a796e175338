"""What the scripts that Gavel measured do on the host, beside and between passes (stanford-futuredata/gavel, workloads/pytorch).

What happens is read in the scripts; which PyTorch they ran on is not stated. Operations of its eager SGD and of clipping are those of the
1.x releases, read in programs that carry copies of that code, not in a release itself (derived). Times are round numbers, fitted to the
calibration rows: launch of an operation and a step's own cost of the classifiers together (the best of 63 pairs by mean error over 28 rows), those
of the language model with the time of its samples (16 rows, among the best of 108 pairs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from validation.tools.training_names import Value

OPERATION = "30 us"
"""Of the host for one operation on a tensor, in Python."""
READ = "20 us"
"""As under AdaptDL: until the host has a number from the device."""

CLASSIFIER: dict[str, Value] = {
    "strategy.weight_loop.numbers": 7,
    "strategy.weight_loop.operations": 6,
    "strategy.weight_loop.operation": OPERATION,
    "strategy.weight_loop.once": "10 ms",
}
"""SGD with momentum and decay adds, multiplies, adds and adds for each tensor, and zero_grad detaches and fills it: 12 numbers where
a fused update moves 5. Batches come through the queue of worker processes, and loss and accuracy are read in every step."""

LANGUAGE: dict[str, Value] = {
    "strategy.weight_loop.numbers": 4,
    "strategy.weight_loop.operations": 5,
    "strategy.weight_loop.operation": OPERATION,
    "strategy.weight_loop.reads": 1,
    "strategy.weight_loop.read": READ,
    "strategy.weight_loop.once": "3 ms",
    "strategy.input.sample": "80 us",
    "strategy.input.when": "before",
}
"""Plain SGD adds once, zero_grad as above, and clip_grad_norm_ takes a norm, waits for it and multiplies: 7 numbers for 3. The data set lies on the
device; the loader has no workers, and for each sample of a batch the script slices, fills and concatenates two tensors there."""

HABITS = {"resnet-18-cifar": CLASSIFIER, "resnet-50": CLASSIFIER, "lstm-wikitext2": LANGUAGE}
