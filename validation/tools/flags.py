"""Flags of Megatron-LM's functional tests that the notes of their table leave out, by the name of the test.

Read in tests/functional_tests/test_cases/*/*/model_config.yaml of NVIDIA/Megatron-LM at commit d98e8a64ddf3. A flag is written as
the table writes those that it has, so that the same patterns read both.
"""

from __future__ import annotations

import re

UNBALANCED = "moe-aux-loss-coeff=0"
"""A router with the name of a balancing loss whose weight is left at its default, 0 (transformer_config.py)."""

FLAGS: tuple[tuple[str, str], ...] = (
    (r"gpt3_7b_\w+_memory_speed", "tokenizer-type=NullTokenizer; vocab-size=131073; untied embeddings"),
    (r"(uneven_pipeline|account_for_embedding|modelopt_distill|untie_embeddings|_untied|scoped_cudagraph)", "untied embeddings"),
    (r"uneven_pipeline", "decoder-first-pipeline-num-layers=2; decoder-last-pipeline-num-layers=2"),
    (r"gpt3_mcore\w*(?<!tp2)_cp2(?!_pp2_ep2)|gpt3_mcore_cp2_pp2_ep2|scoped_cudagraph", "hidden-dropout=0.0"),
    (r"multi_dist_optimizer_instances", "num-distributed-optimizer-instances=2"),
    (r"defer_embedding_wgrad_compute", "defer-embedding-wgrad-compute=True; wgrad-deferral-limit=2"),
    (r"gpt3_moe_mcore_te_tp4_ep2_etp2_pp2", f"moe-shared-expert-intermediate-size=512; {UNBALANCED}"),
    (r"gpt3_moe_mcore_te_ep8", UNBALANCED),
    (r"scoped_cudagraph", "pipeline-model-parallel-layout=Et|(tt|)*6mL"),
)  # fmt: skip
"""Pattern of a test's name, and what its flags say; all that are found count."""


def layout(notes: str) -> tuple[int, ...]:
    """Layers of each chunk of a pipeline whose layout a flag draws; nothing where none does.

    >>> layout("pipeline-model-parallel-layout=Et|(tt|)*6mL")
    (1, 2, 2, 2, 2, 2, 2, 0)
    """
    drawn = re.search(r"pipeline-model-parallel-layout=(\S+)", notes)
    if not drawn:
        return ()
    repeated = re.sub(r"\(([^)]*)\)\*(\d+)", lambda found: found[1] * int(found[2]), drawn[1])
    chunks = re.sub(r"(\w)\*(\d+)", lambda found: found[1] * int(found[2]), repeated)
    return tuple(chunk.count("t") for chunk in chunks.split("|"))


def flags(notes: str) -> str:
    """What the flags of the test that notes name say beyond the notes; empty where they name none.

    >>> flags("test case gpt/gpt3_mcore_te_tp1_pp4_vp1_uneven_pipeline, env dev").startswith("untied embeddings; decoder-first")
    True
    >>> flags("overlap-grad-reduce=True")
    ''
    """
    test = re.search(r"test case \w+/(\w+)", notes)
    return "; ".join(said for pattern, said in FLAGS if re.search(pattern, test.group(1))) if test else ""
