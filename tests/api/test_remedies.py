"""What a warning advises is not done yet, and can be done to this model."""

from __future__ import annotations

import pytest

import perfmodel
from perfmodel.reporting.remedies import remedy


@pytest.mark.parametrize("state", ["weights", "gradients", "optimizer"])
def test_shards_are_advised_until_there_are_some(state: str) -> None:
    plain, sharded = (perfmodel.predict("gpt2-124m", "dgx-h100", devices=8, batch=8, zero=zero) for zero in (0, 3))
    assert "zero" in remedy(state, plain.workload, plain.strategy)
    assert "zero" not in remedy(state, sharded.workload, sharded.strategy)


def test_gradients_that_are_sharded_are_not_to_be_sharded() -> None:
    prediction = perfmodel.predict(
        "llama-3.1-70b", "dgx-a100-80gb", devices=8, batch=8, zero=3, offload="optimizer=host,activations=host"
    )
    (told,) = (w for w in perfmodel.report(prediction).record["warnings"] if "most is gradients" in w)
    assert told.endswith("raise tp or pp")
    assert "zero" not in told


def test_a_convnet_has_no_degrees_to_raise() -> None:
    prediction = perfmodel.predict("resnet-50", "dgx-1-v100", devices=8, batch=8 * 4096, microbatch=4096)
    (told,) = (w for w in perfmodel.report(prediction).record["warnings"] if "does not fit" in w)
    assert told.endswith(": take a smaller microbatch")
