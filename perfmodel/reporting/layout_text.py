"""A strategy in a few words."""

from __future__ import annotations

from perfmodel.specs import Strategy


def layout_text(strategy: Strategy) -> str:
    """The degrees of a plan in one word each.

    >>> from perfmodel.specs import Strategy
    >>> layout_text(Strategy(tp=8, pp=4, vpp=2, dp=16, microbatch=2))
    'tp 8 pp 4x2 dp 16 mb 2'
    """
    s = strategy
    stages = f"pp {s.pp}x{s.vpp}" if s.vpp > 1 else f"pp {s.pp}"
    named = {"tp": f"tp {s.tp}", "cp": f"cp {s.cp}", "pp": stages, "dp": f"dp {s.dp or 1}", "ep": f"ep {s.ep}"}
    degrees = [text for name, text in named.items() if (getattr(s, name) or 1) > 1]
    split = [f"etp {s.etp}"] if (s.etp or s.tp) != s.tp else []
    return " ".join([*degrees, *split, f"mb {s.microbatch}"])


def choices_text(strategy: Strategy) -> str:
    """The structural choices of a plan that are not the plainest.

    >>> from perfmodel.specs import Strategy
    >>> choices_text(Strategy(zero=1, sequence_parallel=True, recompute="full"))
    'sp, zero 1, recompute full'
    """
    s = strategy
    parts = ["sp"] if s.sequence_parallel else []
    if s.zero:
        parts.append(f"zero {s.zero}" + (f" over {s.shard_group}" if s.shard_group else ""))
    parts += [f"recompute {s.recompute}"] if s.recompute != "none" else []
    plain = Strategy()
    parts += [str(getattr(s, name)) for name in ("schedule", "order", "stage_layers", "context")
              if getattr(s, name) != getattr(plain, name)]  # fmt: skip
    parts += [f"offload {s.offload}"] if s.keeps_off.tiers else []
    return ", ".join(parts)
