"""Which machine of the library a published table means."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NO_PCIE = r"(?!.*(PCIe|NVL\b))"


class UnknownMachine(ValueError):  # noqa: N818 - an answer rather than an error
    """No machine of the library is the one that a row names; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A machine by what tables call its device; the first rule that holds wins."""

    name: str
    """Canonical name: hardware/<name>.yaml."""
    device: str
    """Pattern of the device's name, found anywhere in it, in any case."""
    memory: tuple[float, ...] = ()
    """GB of one device as tables print them; empty or unknown: any."""
    per_node: tuple[int, ...] = ()
    """Devices of a node; likewise."""
    fabric: str = ""
    """Pattern of what the table says of system and links; empty: any."""


RULES = (
    Rule("tpu-v7-pod", r"TPU ?(v7\b|7x)|Ironwood"),
    Rule("tpu-v4-pod", r"TPU ?v4\b"),
    Rule("tpu-v5e-pod", r"TPU ?v5(e|litepod)"),
    Rule("tpu-v5p-pod", r"TPU ?v5p"),
    Rule("tpu-v6e-pod", r"TPU ?v6e|Trillium"),
    Rule("tpu-v3-pod", r"TPU ?v3\b"),
    Rule("tpu-v2-pod", r"TPU ?v2\b"),
    Rule("aws-trn1-32xlarge", r"\bTrainium1\b", per_node=(16,)),
    Rule("gaudi2-node", r"\bGaudi ?2\b", per_node=(8,)),
    Rule("gb300-nvl72", r"\bGB300\b"),
    Rule("gb200-nvl72", r"\bGB200\b"),
    Rule("dgx-b200", r"\bB200\b", per_node=(8,)),
    Rule("dgx-b300", r"\bB300\b", per_node=(8,)),
    Rule("dgx-h200", r"\bH200\b", per_node=(8,)),
    Rule("h200-4gpu", r"\bH200\b", per_node=(4,)),
    Rule("dgx-h100", rf"\bH100\b{_NO_PCIE}", memory=(80,), per_node=(1, 8)),
    Rule("h800-8gpu", rf"\bH800\b{_NO_PCIE}", memory=(80,), per_node=(8,)),
    Rule("h20-8gpu", r"\bH20\b", per_node=(8,)),
    Rule("alps-gh200", r"\bGH200\b", per_node=(4,)),
    Rule("gh200-96gb", r"\bGH200\b", per_node=(1,)),
    Rule("a800-8gpu", rf"\bA800\b{_NO_PCIE}", memory=(80,), per_node=(8,)),
    Rule("grand-teton-h100-96gb", rf"\bH100\b{_NO_PCIE}", memory=(96,), per_node=(8,)),
    Rule("jean-zay-a100", rf"\bA100\b{_NO_PCIE}", memory=(80,), per_node=(8,), fabric=r"Jean ?Zay|Omni-?Path|\bbloom"),
    Rule("dgx-a100-80gb", rf"\bA100\b{_NO_PCIE}", memory=(80,), per_node=(8,)),
    Rule("dgx-a100-40gb", rf"\bA100\b{_NO_PCIE}", memory=(40,), per_node=(8,)),
    Rule("mi355x-node", r"\bMI355X\b"),
    Rule("mi350x-node", r"\bMI350X\b"),
    Rule("mi325x-node", r"\bMI325X\b"),
    Rule("mi300x-node", r"\bMI300X\b"),
    Rule("mi250x-node", r"\bMI250X\b"),
    Rule("dgx-2h", r"V100-SXM3.*(-H\b|450 ?W)"),
    Rule("dgx-2", r"V100-SXM3", memory=(32,), per_node=(16,)),
    Rule("jean-zay-v100", r"V100-SXM2", memory=(32,), per_node=(4,), fabric=r"Jean ?Zay|Omni-?Path"),
    Rule("dgx-1-v100", r"V100-SXM2", memory=(32,), per_node=(8,)),
    Rule("dgx-1-v100-16gb", r"V100-SXM2", memory=(16,), per_node=(8,)),
)
"""In the order in which they are tried; add a line for a machine that the library gains."""


def machine(
    device: str,
    *,
    memory: float | None = None,
    per_node: int | None = None,
    fabric: str = "",
    rules: tuple[Rule, ...] = RULES,
) -> str:
    """The canonical name of a machine; raises UnknownMachine with what the library has.

    Args:
        device: name of one device as the table has it.
        memory: GB of one device, where the table says so.
        per_node: devices of one node, likewise.
        fabric: system and links in the table's words.
        rules: what is known.

    >>> machine("A100-SXM4-80GB", memory=80, per_node=8)
    'dgx-a100-80gb'
    """
    memory = memory if memory is not None else _printed_memory(device)
    for rule in rules:
        if (
            re.search(rule.device, device, re.IGNORECASE)
            and (not rule.memory or memory is None or memory in rule.memory)
            and (not rule.per_node or per_node is None or per_node in rule.per_node)
            and (not rule.fabric or re.search(rule.fabric, fabric, re.IGNORECASE))
        ):
            return rule.name
    known = ", ".join(sorted({rule.name for rule in rules}))
    each = f", {memory:g} GB" if memory is not None else ""
    node = f", {per_node} per node" if per_node is not None else ""
    message = f"the library has no machine of {device}{each}{node}; it has {known}"
    raise UnknownMachine(message)


def _printed_memory(device: str) -> float | None:
    found = re.search(r"(\d+) ?GB", device, re.IGNORECASE)
    return float(found.group(1)) if found else None
