"""Which adapters a fine-tuning row means: their width and the products that have one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from validation.tools.llm import Value

PROGRAMS: tuple[tuple[str, int, str], ...] = (
    (r"mlperf", 16, "qkv+output"),
    (r"nemo-(docs|launcher)", 32, "qkv"),
    (r"bridge|dgxc", 16, "qkv"),
)
"""By source: rank, and modules. MLPerf: llama2_70b_lora of https://github.com/mlcommons/training (r 16 on qkv_proj and o_proj).
NeMo-Framework-Launcher: launcher_scripts/conf/peft/llama/sft.yaml. NeMo 2: performance recipes set target_modules to linear_qkv, in
nemo/collections/llm/recipes; the rank is of their order."""


def adapters(source: str) -> dict[str, Value]:
    """Overrides of a row that trains adapters; empty where nothing is known of the program.

    >>> adapters("mlperf-training")["workload.training.adapters.rank"]
    16
    """
    for pattern, rank, modules in PROGRAMS:
        if re.search(pattern, source, re.IGNORECASE):
            return {"workload.training.adapters.rank": rank, "workload.training.adapters.modules": modules}
    return {}
