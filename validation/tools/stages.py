"""Layers of pipeline stages that are not alike, as a row, a flag or a framework's code has them."""

from __future__ import annotations

import re
from bisect import bisect
from itertools import pairwise
from typing import TYPE_CHECKING

from validation.tools.flags import layout

if TYPE_CHECKING:
    from validation.tools.llm import Line

Value = str | int | bool | float

ENDS_COUNTED = r"nemo|megatron-core|primus|torchtitan|Meta in-house"
"""Software that counts embedding and head as layers where stages cannot be alike: Megatron-Core's recipes, torchtitan
(generate_llm_fqn_per_model_part with input_weight and output_weight 1), Llama 3 (arXiv:2407.21783, section 3.3.2)."""

DEEP = 3
"""Layers of a chunk from which on DeepSeek's recipes leave out those of the last alone: Et*4|(t*4|)*14tmL."""


def uneven_stages(line: Line) -> dict[str, Value]:
    """Layers of stages that are told or drawn, or that do not divide by the chunks: recipes count embedding and head as layers, those of DeepSeek cut the end short."""
    if drawn := layout(line.text("notes")):
        return {"strategy.stage_layers": "-".join(map(str, drawn))}
    if line.strategy == "nanotron":
        return _by_cost(line)
    layers, chunks = line.whole("layers") or 0, (line.whole("pp") or 1) * (line.whole("vpp") or 1)
    ends = line.notes(r"first-pipeline-num-layers=(\d+); decoder-last-pipeline-num-layers=(\d+)")
    if ends:
        first, last, between = int(ends.group(1)), int(ends.group(2)), chunks - 2
        each = (layers - first - last) // between
        return {"strategy.stage_layers": "-".join(map(str, (first, *[each] * between, last)))}
    told = line.notes("first and last stage hold one layer fewer")
    if not (told or re.search(ENDS_COUNTED, f"{line.strategy} {line.framework}")) or layers % chunks == 0:
        return {}
    last = line.text("family") == "deepseek" and -(-layers // chunks) >= DEEP
    return {"strategy.stage_layers": "last-fewer" if last else "ends-fewer"}


def _by_cost(line: Line) -> dict[str, Value]:
    """Layers of stages as nanotron cuts them (models/base.py, build_model; models/llama.py, get_block_compute_costs).

    Blocks go to a stage until their products' weights, added up from the embedding on, exceed its share; the head counts.
    """
    layers, stages, hidden = (line.whole(name) or 1 for name in ("layers", "pp", "hidden"))
    one = hidden * (4 * hidden + 3 * (line.whole("ffn_hidden") or 0))
    all_blocks = layers * one + hidden * (line.whole("vocab") or 0)
    before = [
        bisect(range(layers), rank * all_blocks / stages, key=lambda at: (at + 1) * one) for rank in range(1, stages)
    ]
    ends = [0, *(min(at + 1, layers) for at in before), layers]
    sizes = [end - start for start, end in pairwise(ends)]
    return {} if len(set(sizes)) == 1 else {"strategy.stage_layers": "-".join(map(str, sizes))}
