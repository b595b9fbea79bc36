"""A table of a snapshot without what is private of it: the lake gets no more than this."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.spark_jobs.arrow.masked_rows import mask_values
from ticdc_bridge.spark_jobs.pipeline.private_columns import EXCLUDE, ColumnMask, PrivateColumns
from ticdc_bridge.spark_jobs.snapshots.stage import Estimate, SnapshotTable


@dataclass
class PrivateTable(SnapshotTable):
    """As `source`, masked. table, columns: those of the lake; definition: as TiDB has it."""

    source: SnapshotTable
    mask: ColumnMask

    @classmethod
    def of(cls, source: SnapshotTable, private: PrivateColumns) -> SnapshotTable:
        """The source itself where nothing of it is private. SetupError STOPPED where it can't be masked so."""
        mask = private.of_table([source.table.id])
        if not mask.rules:
            return source
        mask.check(source.table)
        masked = mask.mask_table(source.table)
        columns: list[Column] = [masked.by_name[c.name] for c in source.columns if c.name in masked.by_name]
        return cls(masked, source.definition, columns, source, mask)

    @property
    def identity(self) -> str:
        return repr((self.source.identity, self.mask.facts, self.mask.rules))

    def chunks(self) -> list[str]:
        return self.source.chunks()

    def read(self, chunk: str) -> Iterator[list[Any]]:
        methods = [self.mask.method_of(column.name) for column in self.source.columns]
        for arrays in self.source.read(chunk):
            pairs = zip(arrays, methods, strict=True)
            yield [mask_values(a, method, self.mask) if method else a for a, method in pairs if method != EXCLUDE]

    def estimate(self) -> Estimate:
        return self.source.estimate()

    def losses(self) -> list[str]:
        return self.source.losses()

    def position(self, file: int, line: int) -> dict[str, str | int]:
        return self.source.position(file, line)

    def obstacles(self, rows: int) -> list[str]:
        return self.source.obstacles(rows)
