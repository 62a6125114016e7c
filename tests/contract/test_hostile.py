"""A service that means harm costs the worker neither its memory nor its time.

Each harm by itself runs with every test run, 2,000 drawn ones more by ``make prove``. The client is a process of its
own, so that what it measures is its own. What was found stays below as a claim by itself.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.contract.hostile import HOLD_S, LISTED, QUESTIONS, serving
from worker.api.exchanges import codes_in
from worker.api.listing import leaf_of

ROOT = Path(__file__).resolve().parents[2]
MEMORY_MB = 300
FROM = int(os.environ.get("CASES_FROM", "1"))


@pytest.mark.parametrize(
    "count",
    [
        len(LISTED),
        pytest.param(len(LISTED) * len(QUESTIONS) + 2_000, marks=[pytest.mark.prove, pytest.mark.timeout(0)]),
    ],
)
def test_a_hostile_service_takes_neither_memory_nor_time(count: int) -> None:
    with serving(FROM) as port:
        told = subprocess.run(
            [sys.executable, "-m", "tests.contract.hostile", str(port), str(FROM), str(count)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert told.returncode == 0, told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    assert found["peak_mb"] < MEMORY_MB, found
    assert found["held_s"] < HOLD_S, found["longest"]
    assert {"Known", "Unknown", "Listing", "Accepted", "Uncertain"} <= set(found["seen"]), "the cases do not come far"


@pytest.mark.parametrize(
    "link",
    ["rel=" * 20_000, 'rel="a ' * 12_000, "rel" + " " * 80_000 + "x", "rel=" + " " * 80_000, "rel=" + "a " * 40_000],
)
def test_no_link_takes_long_to_be_read(link: str) -> None:
    began = time.process_time()
    assert leaf_of([], [], {"link": link}).more is None
    assert time.process_time() - began < HOLD_S / 2, "one of them took 16 s, in which nothing else went on"


@pytest.mark.parametrize("content", [b"n" * 4_000_000, b"a." * 2_000_000, b"[" + b"0," * 30_000 + b"0]"])
def test_no_refusal_takes_long_to_be_read(content: bytes) -> None:
    began = time.process_time()
    codes_in(content)
    assert time.process_time() - began < HOLD_S / 2
