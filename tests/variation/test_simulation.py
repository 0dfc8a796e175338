"""Steps by formula against steps drawn device by device: every distribution, level, layout and mitigation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perfmodel
from perfmodel.library import find
from perfmodel.variation.apply import vary

if TYPE_CHECKING:
    from perfmodel.variation.simulate import Drawn
    from perfmodel.variation.varied import Varied

MACHINE = Path(__file__).parents[1] / "fixtures" / "machine.yaml"
PARTS = [
    "{kind: exponential, mean: 0.1}",
    "{kind: shifted-exponential, shift: 0.02, mean: 0.05}",
    "{kind: normal, deviation: 0.05}",
    "{kind: lognormal, sigma: 0.1}",
    "{kind: gamma, mean: 0.1, shape: 2}",
    "{kind: weibull, scale: 0.1, shape: 0.8}",
    "{kind: pareto, tail: 12}",
    "{kind: mixture, slowdown: 0.3, probability: 0.01}",
    "{kind: empirical, factors: [0.98, 1.0, 1.1, 1.5], shares: [0.2, 0.7, 0.08, 0.02]}",
]
PLAIN = {"devices": 16}
LAYOUTS = {
    "replicas": PLAIN,
    "tensor groups": {"devices": 32, "tp": 4},
    "pipelines": {"devices": 32, "tp": 2, "pp": 4},
    "wide pipelines": {"devices": 64, "tp": 8, "pp": 4},
}
MITIGATIONS = [
    "{kind: backup-workers, backup: 2}",
    "{kind: backup-workers}",
    "{kind: fastest-k, waited: 12}",
    "{kind: fastest-k, phases: [{waited: 4, share: 0.5}, {waited: 14, share: 0.5}]}",
    "{kind: gradient-coding, stragglers: 1, load: 3, reduction: 2}",
    "{kind: gradient-coding}",
    "{kind: replication, copies: 2}",
    "{kind: replication}",
    "{kind: data-encoding, redundancy: 2}",
    "{kind: partial-results, deadline: 1.1}",
    "{kind: partial-results}",
]


def written(folder: Path, compute: list[str], communication: list[str], mitigation: str = "") -> Path:
    """A variation file."""
    lines = [
        "schema: 1",
        "name: test",
        "sources: {none: invented}",
        "stragglers:",
        "  source: none",
        "  status: assumed",
    ]
    for phase, parts in (("compute", compute), ("communication", communication)):
        lines += [f"  {phase}:", *(f"    - {part}" for part in parts)] if parts else []
    lines += [f"  mitigation: {mitigation}"] if mitigation else []
    file = folder / "variation.yaml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def varied(file: Path, steps: int = 4000, **settings: Any) -> Varied:
    batch = 8 * settings["devices"]
    made: Any = perfmodel.predict(
        "gpt2-355m", MACHINE, stragglers=file, simulate=steps, seed=7, batch=batch, **settings
    )
    return made  # type: ignore[no-any-return]


def apart(drawn: Drawn | None, closed: float) -> float:
    """In standard errors."""
    assert drawn is not None
    return abs(drawn.mean - closed) / (drawn.error + 1e-9 * closed)


class TestAgreesWithDraws:
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("part", PARTS)
    def test_each_distribution_on_each_layout(self, part: str, layout: str, tmp_path: Path) -> None:
        made = varied(written(tmp_path, [part], [part]), **LAYOUTS[layout])
        assert made.simulation is not None
        assert apart(made.simulation.step_time, made.step_time) < 3

    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("per", ["device", "node", "step"])
    def test_sums_of_causes_at_each_level(self, per: str, layout: str, tmp_path: Path) -> None:
        own = f"{{kind: gamma, mean: 0.1, shape: 2, per: {per}}}"
        file = written(tmp_path, [PARTS[3], own], [own, "{kind: exponential, mean: 0.2, per: node}"])
        made = varied(file, **LAYOUTS[layout])
        assert made.simulation is not None
        assert apart(made.simulation.step_time, made.step_time) < 3

    @pytest.mark.parametrize("mitigation", MITIGATIONS)
    def test_each_mitigation(self, mitigation: str, tmp_path: Path) -> None:
        made = varied(written(tmp_path, [PARTS[0]], [PARTS[4]], mitigation), **PLAIN)
        assert made.simulation is not None
        assert made.waiting is not None
        assert apart(made.simulation.step_time, made.step_time) < 3
        assert apart(made.simulation.counted, made.waiting.counted) < 3

    def test_delays_of_passes_average_out(self, tmp_path: Path) -> None:
        """48 passes: a sum as a gamma distribution of three moments, so half a percent of the delay beside the errors."""
        part = "{kind: gamma, mean: 0.2, shape: 1, per: device, lasts: pass}"
        made = varied(written(tmp_path, [part], []), 1000, devices=32, tp=4, microbatch=8)
        assert made.simulation is not None
        assert made.waiting is not None
        drawn = made.simulation.step_time
        assert drawn is not None
        assert abs(drawn.mean - made.step_time) < 3 * drawn.error + 0.005 * made.waiting.delay

    def test_the_spread_of_steps(self, tmp_path: Path) -> None:
        made = varied(written(tmp_path, [PARTS[4]], [PARTS[0]]), 20_000, **PLAIN)
        assert made.simulation is not None
        assert made.waiting is not None
        drawn = made.simulation.step_time
        assert drawn is not None
        assert drawn.error * 20_000**0.5 == pytest.approx(made.waiting.deviation, rel=0.05)

    def test_the_same_seed_draws_the_same(self, tmp_path: Path) -> None:
        file = written(tmp_path, [PARTS[0]], [])
        assert varied(file, 50, **PLAIN).simulation == varied(file, 50, **PLAIN).simulation


class TestLimits:
    def test_delays_of_nothing_change_nothing(self, tmp_path: Path) -> None:
        still = written(tmp_path, ["{kind: mixture, slowdown: 0.0, probability: 0.5}"], [])
        plain = perfmodel.predict("gpt2-355m", MACHINE, devices=16, batch=128)
        assert varied(still, 0, **PLAIN).step_time == pytest.approx(plain.step_time)

    def test_more_devices_wait_longer(self, tmp_path: Path) -> None:
        file = written(tmp_path, [PARTS[0]], [])
        factors = [varied(file, 0, devices=n).waiting.compute_factor for n in (1, 2, 8, 64, 128)]  # type: ignore[union-attr]
        assert factors == sorted(factors)
        assert factors[0] == pytest.approx(1.1)

    def test_a_step_of_all_alike_is_not_longer_for_many(self, tmp_path: Path) -> None:
        file = written(tmp_path, ["{kind: exponential, mean: 0.1, per: step}"], [])
        factors = [varied(file, 0, devices=n).waiting.compute_factor for n in (1, 64)]  # type: ignore[union-attr]
        assert factors == pytest.approx([1.1, 1.1], rel=1e-5)

    def test_a_slow_node_is_less_than_slow_devices(self, tmp_path: Path) -> None:
        nodes = varied(written(tmp_path, ["{kind: exponential, mean: 0.1, per: node}"], []), 0, devices=64)
        devices = varied(written(tmp_path, [PARTS[0]], []), 0, devices=64)
        assert nodes.step_time < devices.step_time

    def test_backups_help_where_tails_are_long(self, tmp_path: Path) -> None:
        """The best number is found, and is no worse than none."""
        plain = varied(written(tmp_path, ["{kind: exponential, mean: 1.0}"], []), 0, **PLAIN)
        best = varied(written(tmp_path, ["{kind: exponential, mean: 1.0}"], [], "{kind: backup-workers}"), 0, **PLAIN)
        assert best.samples_per_second > plain.samples_per_second
        assert best.waiting is not None
        assert 0 < best.waiting.counted < 1


class TestPublished:
    """ResNet-50 for MXNet on the DGX-2, images per second on 1 to 16 devices (NVIDIA DeepLearningExamples@729963d)."""

    @pytest.mark.parametrize(
        ("precision", "throughputs", "within"),
        [
            ("fp32", {1: 417, 2: 821, 4: 1623, 8: 3223, 16: 6338}, 0.01),
            ("fp16", {1: 1492, 2: 2935, 4: 5726, 8: 11368, 16: 21484}, 0.065),
        ],
    )
    def test_what_weak_scaling_loses(self, precision: str, throughputs: dict[int, int], within: float) -> None:
        """The preset was fitted to rows like those of fp32; those of fp16 were held apart, and the last loses twice as much."""
        preset = find("variations", "jitter-weak-scaling")
        batch = 128 if precision == "fp32" else 256
        for devices, throughput in throughputs.items():
            lost = throughputs[1] * devices / throughput
            plain: Any = perfmodel.predict(
                "resnet-50", "dgx-2", strategy="mxnet", devices=devices, batch=batch * devices, microbatch=batch,
                precision=precision,
            )  # fmt: skip
            one: Any = perfmodel.predict(
                "resnet-50", "dgx-2", strategy="mxnet", batch=batch, microbatch=batch, precision=precision
            )
            found = vary(plain, preset).step_time / one.step_time
            assert found == pytest.approx(lost, abs=within), precision
            assert abs(found - lost) <= abs(plain.step_time / one.step_time - lost) + 1e-3
