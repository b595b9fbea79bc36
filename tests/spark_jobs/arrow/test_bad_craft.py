"""Damaged Craft messages: the compiled kernels give what the codec gives, or leave them to it.

BRIDGE_FUZZ=N: damaged messages (2,000; the slow form 20,000). BRIDGE_BOUNDS=1: fuzzes once more with numba's bounds
checks.
"""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.spark_jobs.arrow.test_table_rows_craft import COLUMNS, ORIGIN, SPAN, _dec, check, wide_rows
from tests.support.fuzz import WITH_BOUNDS, mutate, run_with_bounds_checks
from tests.support.golden import Registry
from tests.support.rows import change, column, table
from tests.support.table import check_rows as check_each
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.craft.encoder import CraftEncoder
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.types import Kind

MUTATIONS = int(os.environ.get("BRIDGE_FUZZ", "2000"))
MANY = max(MUTATIONS, 20_000)
pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")


def fuzz(mutations: int) -> int:
    """Damaged messages in batches beside sound ones. Out: how many damaged ones were taken."""
    rng = random.Random("craft kernels 20261121")
    taken = 0
    of, rows = wide_rows(64)
    narrow = table(column("v", "varchar"), column("n", "bigint", unsigned=True), column("d", "decimal"))
    small = [
        change(narrow, {"v": "é" * n, "n": str(n << 50), "d": f"{n}.5"}, {"v": None, "n": "1", "d": "2"})
        for n in range(9)
    ]
    for target, events in ((of, rows), (narrow, small), (SPAN, [change(SPAN, _sample(rng)) for _ in range(9)])):
        for size in (1, 3):
            options = Options.of({"max_batch_size": size})
            written = CraftEncoder(Context(Registry(), None, options)).encode_rows(events, ORIGIN)
            sound = [m.value or b"" for m in written]
            for _ in range(max(1, mutations // 6 // 200)):
                batch = [mutate(rng, rng.choice(sound), sound) for _ in range(200)]
                taken += check(target, [sound[0], *batch, sound[-1]]) - 2
    return taken


def _sample(rng: random.Random) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for c, _ in COLUMNS:
        if c.type.kind is Kind.INTEGER:
            row[c.name] = str(rng.randrange(1 << c.type.bits - 1))
        elif c.type.kind is Kind.DECIMAL:
            row[c.name] = _dec(rng.randrange(10 ** (c.length or 1)), c.scale or 0)
        elif c.type.kind is Kind.TEXT:
            row[c.name] = "é东" * rng.randrange(5)
        else:
            row[c.name] = None
    return row


@pytest.mark.parametrize("mutations", [MUTATIONS, pytest.param(MANY, marks=pytest.mark.slow, id="many")])
def test_damaged_messages(mutations: int) -> None:
    assert fuzz(mutations) > mutations // 100  # some damage can't be seen: a changed digit is a digit


@WITH_BOUNDS
def test_damaged_messages_with_bounds_checks(tmp_path: Path) -> None:
    code = "from tests.spark_jobs.arrow.test_bad_craft import fuzz; print(fuzz(20000))"
    assert int(run_with_bounds_checks(code, tmp_path)) > 0


def test_counts_that_lie_cost_no_memory() -> None:
    check_each([(1 << 31) - 1, 1 << 62, (1 << 64) - 1], _counts_that_lie)


def _counts_that_lie(number: int) -> None:
    from ticdc_bridge.schemas.formats.craft import layout as p

    of = table(column("v", "int"))
    [message] = CraftEncoder(Context(Registry())).encode_rows([change(of, {"v": "1"})], ORIGIN)
    good = message.value or b""
    lies = [good[:at] + p.uvarint(number) + good[at + 1 :] for at in range(len(good))]
    lies += [good[:at] + p.uvarint(number)[::-1] + good[at + 1 :] for at in range(len(good))]
    check(of, lies)
