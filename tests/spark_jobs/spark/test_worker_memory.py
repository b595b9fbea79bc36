"""A worker keeps the memory of a batch's large arrays for the next batch."""

import subprocess
import sys

import pytest

_CODE = """
import resource, numpy
from ticdc_bridge.spark_jobs.spark.worker_tuning import tune_worker

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if {tuned}:
    tune_worker()
for turn in range(4):  # the first ones take the memory
    before = faults()
    arrays = [numpy.ones(16 << 20, numpy.uint8) for _ in range(2)]
    del arrays
print(faults() - before)
"""


def _faults(tuned: bool) -> int:
    code = _CODE.format(tuned=tuned)
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="it is glibc's malloc that is told")
def test_large_arrays_are_not_cleared_anew_for_each_batch() -> None:
    assert _faults(tuned=True) * 10 < _faults(tuned=False)
