"""Commands without Spark: what goes to the compiled readers in batches is what goes message by message."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.spark_jobs.arrow.test_messages import _mixed
from tests.support.golden import Golden
from tests.support.progress_lines import without_progress
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.arrow import batches, input_batches
from ticdc_bridge.spark_jobs.io.message_files import message_line
from ticdc_bridge.spark_jobs.jobs import in_process_batches

pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")

_COMMANDS: tuple[tuple[str, str, list[str]], ...] = (
    ("avro", "bulk.ext1", []),
    ("avro", "evolution.ext1", ["--table", "test.evo", "--types", "typed", "--on-lossy", "flag"]),
    ("avro", "wide.before.ext1", ["--table", "test.wide"]),
    ("debezium", "evolution.ext.schema", []),
    ("open", "bulk.batch1", ["--on-error", "drop"]),
)


@pytest.mark.parametrize(("format_", "name", "more"), _COMMANDS, ids=[f"{c[0]}-{c[1]}" for c in _COMMANDS])
def test_the_command_without_spark(
    format_: str,
    name: str,
    more: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Same output, dead letters and counts by kernels as message by message, whatever stands between."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(batches, "FEW", 1)
    monkeypatch.setattr(in_process_batches, "AFTER", 7)
    golden = Golden(format_, name)
    lines = [json_line(message_line(m)) for m in _mixed(golden) * (24 if format_ == "debezium" else 4)]
    lines[11:11] = ["nope", "", '{"value_b64":"AAAA"}']
    lines.append(json_line(message_line(Message(b"k", b"v", "t", 1 << 40))))
    Path("in.jsonl").write_text("\n".join(lines) + "\n")
    words = ["decode", "--format", format_, "--in", "in.jsonl", "--dead-letter", "dead", *more]
    words += ["--schemas" if format_ == "avro" else "--ddl", str(golden.meta_file)]
    end, reported, taken = "parquet" if "--table" in more else "jsonl", [], []
    in_order = in_process_batches._merge_in_order

    def noted(items: Any, fast: Any, rest: list[int]) -> Any:
        taken.append(0 if fast is None else len(fast.origin))
        return in_order(items, fast, rest)

    monkeypatch.setattr(in_process_batches, "_merge_in_order", noted)
    for ready in (False, True):
        monkeypatch.setattr(in_process_batches.KernelWarmUp, "check", lambda _, ready=ready: ready)
        monkeypatch.setattr(input_batches, "_BATCH", 50)
        out = Path(f"{ready}.{end}")
        assert main([*words, "--out", str(out)]) == (0 if "drop" in more else 1)
        found: Any = pq.read_table(out).to_pylist() if end == "parquet" else out.read_bytes()
        dead = Path("dead").read_bytes() if Path("dead").exists() else None
        reported.append((found, dead, without_progress(capsys.readouterr().err)))
    assert reported[0] == reported[1]
    assert sum(taken) > 20, "the kernels took next to nothing"


@pytest.mark.slow
def test_kernels_are_made_ready_beside_the_job() -> None:
    """A process of its own compiles them; it ends well where they are there."""
    warming = in_process_batches.KernelWarmUp("avro", "warm_lines")
    assert warming.check() in (False, True)
    assert warming._process.wait() == 0
    assert warming.check()
    warming.stop()
    other = in_process_batches.KernelWarmUp("craft", "warm_lines")  # no kernels write its lines
    assert not other.check()
    assert other._process.wait() == 1
    assert not other.check()
