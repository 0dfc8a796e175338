"""A trace of 100 MB in bounded time and memory.

The peak is that of the process itself (VmHWM): getrusage passes on what its parent held when it was started.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic import large

ROOT = Path(__file__).parents[2]
CODE = """
import json, sys, time
from pathlib import Path
from perfmodel.traces.job import job
from perfmodel.traces.reading import read_traces
began = time.process_time()
[trace] = read_traces([Path(sys.argv[1])])
[summary] = job([trace]).ranks
busy = summary.busy
peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2]
print(json.dumps({"cpu": time.process_time() - began, "mb": int(peak.split()[0]) / 1024, "events": trace.events}))
"""


@pytest.mark.slow
def test_100_mb_take_at_most_10_s_of_the_processor_and_500_mb_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(large(100_000_000))
    assert path.stat().st_size > 99e6
    told = subprocess.run(  # noqa: S603 - a constant
        [sys.executable, "-c", CODE, path],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(told.stdout)
    assert found["events"] > 300_000
    assert found["cpu"] < 10
    assert found["mb"] < 500
