"""Parameter servers, peers and all-reduce in whole steps: limits, order, crossovers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.formulas.parameter_server import servers_to_match_ring
from perfmodel.library import find
from perfmodel.parallel import arrange
from perfmodel.prediction import Prediction, predict, predict_layout
from perfmodel.reporting.prediction import warnings
from perfmodel.specs import Strategy
from perfmodel.specs.servers import Servers
from perfmodel.sync import PROTOCOLS
from perfmodel.timeline import COMMUNICATION

if TYPE_CHECKING:
    from perfmodel.specs import Hardware, Workload

MACHINE = "pcie-4gpu-10gbe"
CLOSE = 1 + 1e-9
PLACEMENTS = ("dedicated", "colocated")


def hardware(**changes: Any) -> Hardware:
    made: Hardware = find("hardware", MACHINE, {k.replace("__", "."): (v, "--set") for k, v in changes.items()})
    return made


def single(**changes: Any) -> Hardware:
    """Hosts of one device, the network of which has no latency."""
    return hardware(host__devices=1, network__0__devices=1, network__1__latency="0 s", **changes)


def workload(name: str, batch: int) -> Workload:
    overrides = {"training.batch": (batch, "--batch"), "training.precision": ("fp32", "--precision")}
    made: Workload = find("workloads", name, overrides)
    return made


def predicted(devices: int, machine: Hardware | None = None, model: str = "vgg-16", **given: Any) -> Prediction:
    servers = {k.removeprefix("servers_"): given.pop(k) for k in list(given) if k.startswith("servers_")}
    chosen = {"gradient_overlap": "none", "gradient_precision": "same", **given}
    strategy = Strategy(dp=devices, microbatch=8, servers=Servers(**servers) if servers else None, **chosen)
    return predict(workload(model, 8 * devices), machine or hardware(), strategy)


def messages(made: Prediction) -> float:
    return sum(time for kind, (time, _) in made.kinds.items() if kind in COMMUNICATION)


@st.composite
def served(draw: st.DrawFn, /, **fixed: Any) -> dict[str, Any]:
    """Options of a job with servers, all of which can be combined."""
    chunk, pull = draw(st.sampled_from([None, 4e6])), draw(st.sampled_from(["at-once", "next-step"]))
    both = chunk is not None and pull == "at-once"
    return {
        "sync": "parameter-server",
        "servers_placement": draw(st.sampled_from(PLACEMENTS)),
        "servers_workers": draw(st.sampled_from(["hosts", "devices"])),
        "servers_update": draw(st.sampled_from(["workers", "servers"])),
        "servers_memory_bandwidth": draw(st.sampled_from([None, 50e9])),
        "servers_chunk": chunk,
        "servers_pull": pull,
        "servers_duplex": draw(st.sampled_from([0.0, 0.5, 1.0])) if both else 0.0,
        "gradient_overlap": draw(st.sampled_from(["none", "backward"])),
    } | fixed


def raw(options: dict[str, Any]) -> dict[str, Any]:
    """With quantities as YAML writes them."""
    units = {"servers_chunk": "B", "servers_memory_bandwidth": "B/s", "servers_nic_bandwidth": "B/s"}
    return {k: f"{v} {units[k]}" if k in units and v is not None else v for k, v in options.items()}


class TestLimits:
    @given(served())
    def test_one_worker_costs_nothing(self, options: dict[str, Any]) -> None:
        alone = predicted(1, **raw(options))
        assert messages(alone) == 0
        assert alone.step_time == pytest.approx(predicted(1, gradient_overlap=options["gradient_overlap"]).step_time)

    def test_one_peer_costs_nothing(self) -> None:
        assert messages(predicted(1, sync="peer-to-peer")) == 0
        assert predicted(1, sync="peer-to-peer").step_time == pytest.approx(predicted(1).step_time)

    @pytest.mark.parametrize("sync", PROTOCOLS)
    @pytest.mark.parametrize("devices", [4, 16])
    def test_an_infinite_network_leaves_computing(self, sync: str, devices: int) -> None:
        endless = {f"network__{tier}__{what}": "1e18 B/s" if what == "bandwidth" else "0 s" for tier in (0, 1) for what in ("bandwidth", "latency")}  # fmt: skip
        machine = hardware(host__device_link="1e18 B/s", **endless)
        made = predicted(devices, machine, sync=sync, servers_update="workers")
        summing = made.kinds.get("memory-bound", (0.0, 0.0))[1] - predicted(1, machine).kinds["memory-bound"][1]
        assert made.step_time - summing == pytest.approx(predicted(1, machine).step_time, rel=1e-6)

    @given(served(), st.sampled_from([4, 8, 16, 32]))
    def test_the_step_lies_between_its_bounds(self, options: dict[str, Any], devices: int) -> None:
        made = predicted(devices, **raw(options))
        assert made.bounds[0] <= made.step_time * CLOSE
        assert made.step_time <= made.bounds[1] * CLOSE
        assert sum(exposed for _, _, exposed in made.terms) == pytest.approx(made.step_time, rel=1e-9)


class TestServers:
    @given(served(servers_placement="dedicated"), st.integers(1, 12), st.integers(1, 12))
    def test_more_servers_are_never_slower(self, options: dict[str, Any], one: int, other: int) -> None:
        few, many = sorted((one, other))
        given = raw(options)
        times = [predicted(32, **{**given, "servers_count": count}).step_time for count in (few, many)]
        assert times[1] <= times[0] * CLOSE

    @given(served(servers_placement="dedicated", servers_count=1), st.integers(1, 12), st.integers(1, 12))
    def test_more_cards_are_never_slower(self, options: dict[str, Any], one: int, other: int) -> None:
        few, many = sorted((one, other))
        given = raw(options)
        times = [predicted(32, **{**given, "servers_nics": count}).step_time for count in (few, many)]
        assert times[1] <= times[0] * CLOSE

    @pytest.mark.parametrize("workers", [8, 16, 32])
    def test_machines_of_their_own_pay_only_with_both_directions(self, workers: int) -> None:
        """One after the other, a worker that serves too keeps its own share; at once, its port carries twice."""

        def time(placement: str, duplex: float) -> float:
            options: dict[str, Any] = {
                "sync": "parameter-server",
                "servers_placement": placement,
                "servers_update": "workers",
            }
            return predicted(workers, single(), servers_chunk="4 MB", servers_duplex=duplex, **options).step_time

        assert time("colocated", 0.0) < time("dedicated", 0.0)
        assert time("dedicated", 1.0) < time("colocated", 1.0)

    def test_chunks_hide_the_shorter_stages(self) -> None:
        times = [
            predicted(16, sync="parameter-server", servers_chunk=chunk, servers_duplex=1.0).step_time
            for chunk in ("40 GB", "40 MB", "4 MB", "40 kB")
        ]
        assert times == sorted(times, reverse=True)
        assert times[0] == pytest.approx(predicted(16, sync="parameter-server").step_time)

    def test_a_pull_that_waits_is_not_hidden(self) -> None:
        options: dict[str, Any] = {
            "sync": "parameter-server",
            "gradient_overlap": "backward",
            "servers_update": "workers",
        }
        fast = hardware(
            network__1__bandwidth="100 GB/s", network__0__bandwidth="100 GB/s", host__device_link="100 GB/s"
        )
        once, later = (predicted(16, fast, servers_pull=pull, **options) for pull in ("at-once", "next-step"))
        [(whole, exposed)] = [(time, seen) for leaf, time, seen in later.terms if leaf.name == "pull"]
        assert exposed == pytest.approx(whole)
        assert later.step_time - once.step_time > exposed * 0.99
        assert messages(later) == pytest.approx(messages(once))

    def test_reduction_inside_hosts_spares_the_network(self) -> None:
        hosts, devices = (predicted(32, sync="parameter-server", servers_workers=w) for w in ("hosts", "devices"))
        assert hosts.kinds["push"][0] == pytest.approx(devices.kinds["push"][0] / 4, rel=0.01)

    def test_memory_of_servers_binds_at_last(self) -> None:
        cards: dict[str, Any] = {
            "sync": "parameter-server",
            "servers_count": 1,
            "servers_nics": 1000,
            "servers_chunk": "32 kB",
        }
        slow, fast = (predicted(32, servers_memory_bandwidth=b, **cards) for b in ("1 GB/s", "1000 GB/s"))
        summed = 5 * 8 * 4 * fast.graph.parameters / 1e9
        assert slow.kinds["server"][1] > 0
        assert slow.step_time - predicted(1).step_time > summed
        assert fast.step_time < slow.step_time / 5

    def test_states_leave_the_devices_with_the_update(self) -> None:
        on_devices, on_servers = (
            predicted(16, model="bert-base", sync="parameter-server", servers_update=u) for u in ("workers", "servers")
        )
        assert np.all(on_servers.footprint.optimizer == 0)
        assert np.all(on_devices.footprint.optimizer == predicted(16, model="bert-base").footprint.optimizer)

    @settings(max_examples=20)
    @given(served(servers_count=None))
    def test_a_column_of_devices_is_its_rows(self, options: dict[str, Any]) -> None:
        given = raw(options)
        rows = [predicted(n, **given) for n in (1, 2, 4, 8, 32)]
        first = rows[-1]
        dp = np.array([row.layout.dp for row in rows])
        layout = replace(first.layout, dp=dp, batch=8 * dp, shard_group=dp)
        from perfmodel.timeline import duration

        table = predict_layout(first.workload, first.hardware, first.strategy, layout)
        np.testing.assert_allclose(
            np.broadcast_to(duration(table.tree), len(rows)), [row.step_time for row in rows], rtol=1e-9
        )


class TestOrder:
    @pytest.mark.parametrize("model", ["vgg-16", "bert-large", "resnet-50"])
    @pytest.mark.parametrize("devices", [4, 8, 16, 32])
    def test_one_server_then_peers_then_a_ring(self, model: str, devices: int) -> None:
        """As Alqahtani and Demirbas (arXiv:1909.02061) found for models that communication binds."""
        ways: list[dict[str, Any]] = [
            {"sync": "parameter-server", "servers_count": 1}, {"sync": "peer-to-peer"}, {"sync": "all-reduce"},
        ]  # fmt: skip
        one, peers, ring = (predicted(devices, single(), model, **way).samples_per_second for way in ways)
        assert one < peers < ring

    @pytest.mark.parametrize("devices", [8, 16, 32])
    def test_servers_match_the_ring_where_the_lemma_says(self, devices: int) -> None:
        """Counted in whole servers on both sides of it."""
        count = float(servers_to_match_ring(workers=devices, duplex=1.0))

        def exposed(servers: int) -> float:
            both: dict[str, Any] = {"servers_chunk": "4 kB", "servers_duplex": 1.0, "servers_update": "workers"}
            made = predicted(devices, single(), sync="parameter-server", servers_count=servers, **both)
            return made.step_time - predicted(1).step_time

        ring = messages(predicted(devices, single()))
        assert exposed(int(np.ceil(count))) <= ring * 1.001
        assert exposed(int(np.floor(count * 0.999))) > ring

    def test_latency_makes_a_ring_overtake_late(self) -> None:
        """A small gradient over long paths: one server answers in two messages, a ring in 2 (p - 1) steps or 2 log p."""
        far = hardware(host__devices=1, network__0__devices=1, network__1__latency="20 ms")

        def pair(devices: int) -> tuple[float, float]:
            server = predicted(devices, far, "resnet-50", sync="parameter-server", servers_count=1)
            return server.step_time, predicted(devices, far, "resnet-50").step_time

        (server, ring), (server_later, ring_later) = pair(2), pair(32)
        assert ring_later < server_later
        assert server / ring < server_later / ring_later


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "path", "words"),
        [
            ({"sync": "parameter-server", "servers_placement": "colocated", "servers_count": 5}, "servers.count", "at most 4"),
            (
                {"sync": "parameter-server", "servers_placement": "host-memory", "servers_workers": "devices"},
                "servers.placement", "one host, not 4 hosts",
            ),
        ],
    )  # fmt: skip
    def test_servers_that_find_no_room(self, options: dict[str, Any], path: str, words: str) -> None:
        with pytest.raises(InputError) as caught:
            predicted(16, **options)
        [problem] = caught.value.problems
        assert problem.path == path
        assert words in problem.message

    @pytest.mark.parametrize(
        ("sync", "zero", "servers", "paths"),
        [
            ("parameter-server", 1, {}, {"zero"}),
            ("peer-to-peer", 3, None, {"zero"}),
            ("peer-to-peer", 0, {"count": 2}, {"servers"}),
            ("parameter-server", 0, {"placement": "colocated", "nics": 2, "duplex": 1}, {"servers.nics", "servers.duplex"}),
            ("parameter-server", 0, {"placement": "host-memory", "count": 2}, {"servers.workers", "servers.count"}),
            ("parameter-server", 0, {"chunk": "4 MB", "pull": "next-step", "duplex": 1}, {"servers.duplex"}),
            ("parameter-server", 0, {"chunk": "0 B", "memory_bandwidth": "0 B/s"}, {"servers.chunk", "servers.memory_bandwidth"}),
        ],
    )  # fmt: skip
    def test_options_that_contradict(
        self, sync: Any, zero: int, servers: dict[str, Any] | None, paths: set[str]
    ) -> None:
        made = Strategy(sync=sync, zero=zero, servers=None if servers is None else Servers(**servers))
        assert {fault.path for fault in made.faults()} == paths


@pytest.mark.parametrize(
    "name", ["parameter-server", "parameter-server-single", "peer-to-peer", "byteps", "byteps-after-backward", "parameter-hub",
             "mxnet-dist-sync", "tensorflow-ps-cpu", "tensorflow-ps-gpu", "tensorflow-distributed"]
)  # fmt: skip
def test_every_preset_runs(name: str) -> None:
    strategy = find("strategies", name, {"dp": (4, "--dp"), "microbatch": (8, "--microbatch")})
    made = predict(workload("resnet-50", 32), hardware(), strategy)
    assert made.step_time > 0
    assert arrange(made.workload, made.hardware, strategy).dp == 4


def test_memory_that_nobody_knows_is_told() -> None:
    known = predicted(16, sync="parameter-server", servers_memory_bandwidth="50 GB/s")
    assert not [line for line in warnings(known) if "adding up" in line]
    assert [line for line in warnings(predicted(16, sync="parameter-server")) if "adding up" in line]
    assert not [line for line in warnings(predicted(16)) if "adding up" in line]
