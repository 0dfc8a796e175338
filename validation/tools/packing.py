"""Which fine-tuning rows pack samples into sequences, and how long these are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from validation.tools.llm import Value

SQUAD = 200
"""Tokens of a question of SQuAD with its paragraph and answer, some 150 words (assumed: the sources print none). Beside 4,096
tokens of a sequence it hardly matters whether it is 100 or 400."""


def packed(source: str, notes: str) -> dict[str, Value]:
    """Overrides of a row that packs samples of SQuAD; MLPerf's packs see across (`packed_sequence_return_cu_seqlen: False`).

    >>> packed("nemo-docs", "SFT fine-tuning (packed 4096-token SQuAD)")
    {'workload.training.packed': 200}
    >>> packed("mlperf-training", "packed sequences")
    {}
    """
    own = re.search(r"nemo|dgxc", source) and re.search(r"packed", notes)
    return {"workload.training.packed": SQUAD} if own else {}
