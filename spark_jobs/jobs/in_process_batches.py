"""`decode` in this process: many messages at once, once there were so many that this pays.

The first ones go through the plain codec, while a process of its own makes the machine code ready.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.result import Summary

if TYPE_CHECKING:
    from ticdc_bridge.spark_jobs.arrow.input_batches import Item

AFTER = 5000  # messages: they take the plain codec as long as loading the kernels takes


class KernelWarmUp:
    """Machine code of what decodes a format, made ready by another process; `ready` where it is."""

    def __init__(self, format_: str, warm: str) -> None:
        self._format, self._warm = format_, warm
        self._process: Any = None
        self.ready = False

    def check(self) -> bool:
        """Begins when it is first asked; whether it is done."""
        if self._process is None:
            self._process = self._start_process()
        self.ready = self.ready or (self._process is not None and self._process.poll() == 0)
        return self.ready

    def _start_process(self) -> Any:
        imports = (
            "from ticdc_bridge.schemas.columnar.kernels import jit; from ticdc_bridge.spark_jobs.arrow import warm_up"
        )
        code = f"{imports}; raise SystemExit(not (jit.IS_CACHED and warm_up.{self._warm}({self._format!r})))"
        paths = os.pathsep.join(path for path in sys.path if path)
        try:
            return subprocess.Popen(
                [sys.executable, "-P", "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": paths},
            )  # fmt: skip
        except OSError:
            return None

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class BatchDecoder:
    """Messages, or what failed → in order, what kernels made of some (lines; batches with a schema), or the item."""

    def __init__(self, config: CodecConfig, summary: Summary, schema: Any = None) -> None:
        self._config, self._summary, self._schema = config, summary, schema
        self._warming = KernelWarmUp(config.format, "warm_lines" if schema is None else "warm_table_rows")

    def __call__(self, incoming: Iterable[Item]) -> Iterator[Any]:
        """Items, lists of text, and record batches."""
        items = iter(incoming)
        yield from islice(items, AFTER)
        for first in items:
            yield from self._read_batches(chain((first,), items))

    def _read_batches(self, items: Iterator[Item]) -> Iterator[Any]:
        try:
            try:
                from ticdc_bridge.spark_jobs.arrow import changes, lines
                from ticdc_bridge.spark_jobs.arrow.input_batches import batch_items
            except ImportError:  # no pyarrow
                yield from items
                return
            can_read = lines.can_write_lines if self._schema is None else changes.can_read_changes
            if not can_read(self._config):
                yield from items
                return
            while chunk := list(batch_items(items)):
                if self._warming.check():
                    yield from self._read(chunk)
                else:
                    yield from chunk
        finally:
            self._warming.stop()

    @cached_property
    def _reader(self) -> Any:
        from ticdc_bridge.spark_jobs.arrow.changes import ChangeReader
        from ticdc_bridge.spark_jobs.arrow.lines import LineReader

        return LineReader(self._config) if self._schema is None else ChangeReader(self._config, self._schema)

    def _read(self, chunk: list[Item]) -> Iterator[Any]:
        from ticdc_bridge.spark_jobs.arrow.input_batches import batch_of_messages

        batch = batch_of_messages(chunk, timed=self._schema is not None)
        if batch is None:
            yield from chunk
            return
        start = 0
        try:
            for selected, fast, rest in self._reader.process_batch(batch, self._summary):
                yield from _merge_in_order(chunk[start : start + selected.num_rows], fast, rest.tolist())
                start += selected.num_rows
        except SetupError:  # a source of schemas or tables is away: whoever needs it says so
            yield from chunk[start:]


def _merge_in_order(items: list[Item], fast: Any, rest: list[int]) -> Iterator[Any]:
    import numpy as np

    if fast is None:
        yield from items
        return
    results = fast.rows if hasattr(fast, "rows") else fast.lines.to_pylist()
    ends = np.searchsorted(fast.origin, rest).tolist()
    at = 0
    for index, end in zip(rest, ends, strict=True):
        if end > at:
            yield results[at:end]
        yield items[index]
        at = end
    if at < len(fast.origin):
        yield results[at:]
