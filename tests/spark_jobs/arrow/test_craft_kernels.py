"""Craft's kernels: all that is used is compiled before, in a zip too; without numba all is left to Python."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.schemas.columnar.test_craft_writer import check as check_written
from tests.spark_jobs.arrow.test_table_rows_craft import ORIGIN, check, wide_rows
from tests.support.golden import ROOT, Registry
from tests.support.rows import change, column, table
from tests.support.table_decoders import warm_craft
from ticdc_bridge.schemas.columnar.craft_reader import CraftTableReader
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.craft.encoder import CraftEncoder
from ticdc_bridge.spark_jobs.arrow.warm_up import warm_transcode

pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")


# ---- compiling
def test_warm_compiles_all_that_is_used() -> None:
    """Arrays of another kind would be compiled for anew, in every worker."""
    from ticdc_bridge.schemas.columnar.kernels import craft_cells, craft_read, craft_write

    assert warm_craft()
    assert warm_transcode("avro", "craft")
    outer: list[Any] = [craft_read.scan, craft_cells.fill, craft_write.measure, craft_write.write]
    before = [list(f.signatures) for f in outer]
    assert [f.__name__ for f, known in zip(outer, before, strict=True) if not known] == []
    of, rows = wide_rows(20)
    messages = [m.value or b"" for m in CraftEncoder(Context(Registry())).encode_rows(rows, ORIGIN)]
    assert check(of, messages) == len(messages)
    assert check_written(rows, {}) > 0
    assert [list(f.signatures) for f in outer] == before


# ---- where numba is not, and where the code is in a zip
def _run(code: str, path: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd="/", env={**os.environ, "PYTHONPATH": path, **env},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_numba_all_is_left_to_python() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from ticdc_bridge.schemas.columnar.kernels import jit\n"
        "from ticdc_bridge.schemas.columnar.craft_reader import CraftTableReader\n"
        "from ticdc_bridge.schemas.model.table import *; import numpy as np\n"
        "from ticdc_bridge.schemas.columnar.rows import *\n"
        "d, data, at = CraftTableReader(Table(TableId('a', 'b'), ())), np.zeros(2, np.uint8), np.zeros(2, np.int64)\n"
        "print(jit.COMPILED, [*d.read(MessageBuffers(data, at, at, data, at, at + 1), ChunkMemory(data), at > 0)])"
    )
    assert _run(code, str(ROOT)) == "False []\n"


def test_from_a_zip_with_the_code_compiled_before(tmp_path: Path) -> None:
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.write(ROOT / "ticdc_bridge" / "__init__.py", "ticdc_bridge/__init__.py")
        for file in sorted((ROOT / "schemas").rglob("*.py")):
            out.write(file, Path("ticdc_bridge", file.relative_to(ROOT)))
    of = table(column("v", "int"))
    [message] = CraftEncoder(Context(Registry())).encode_rows([change(of, {"v": "1"})], ORIGIN)
    code = (
        "import numpy as np; from ticdc_bridge.schemas.model.table import *\n"
        "from ticdc_bridge.schemas.model.types import BY_NAME\n"
        "from ticdc_bridge.schemas.columnar.kernels import craft_read as kernel_read\n"
        "from ticdc_bridge.schemas.columnar.craft_reader import CraftTableReader\n"
        "from ticdc_bridge.schemas.columnar.rows import *\n"
        f"data = np.frombuffer(bytes.fromhex('{(message.value or b'').hex()}'), np.uint8)\n"
        "c = [Column(n, BY_NAME['int'], handle_key=n == 'id') for n in ('id', 'v')]\n"
        "d = CraftTableReader(Table(TableId('shop', 't'), tuple(c)))\n"
        "at, end = np.zeros(1, np.int64), np.array([len(data)])\n"
        "[r] = d.read(MessageBuffers(data, at, end, data, at, end), ChunkMemory(data), at > 0)\n"
        "print(r.start[1, :1], sum(kernel_read.scan.stats.cache_hits.values()))"
    )
    assert CraftTableReader(of).read is not None
    check(of, [message.value or b""])  # compiles, where nothing is cached yet
    assert _run(code, str(archive)) == "[1] 1\n"
