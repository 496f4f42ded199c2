"""What a job frees it keeps: the next step's tensors need no new pages of the system."""

import ctypes
import subprocess
import sys

import pytest

from data.workspace import PROJECT

pytestmark = pytest.mark.slow

FAULTS = """
import resource, sys
import numpy as np
from jobs.machine import give_back_large_blocks, hold_freed_memory

if sys.argv[1] != "plain":
    hold_freed_memory()
if sys.argv[1] == "large ones given back":
    give_back_large_blocks()

def step():
    return sum(float(np.ones(2**23)[-1]) for _ in range(5))  # 64 MiB each, freed at once

step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="another C library than glibc")
def test_freed_memory_is_used_again() -> None:
    held = told(FAULTS, "held")
    assert held * 10 < told(FAULTS, "plain")
    assert held * 10 < told(FAULTS, "large ones given back")


def told(script: str, how: str) -> int:
    command = [sys.executable, "-c", script, how]
    return int(subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout)
