"""Tables of the lake as other programs read them: pyiceberg, and DuckDB with its extensions from packages."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.table import StaticTable

Rows = list[dict[str, Any]]


def hadoop_metadata(folder: Path) -> str:
    """The newest metadata file of an Iceberg table of a Hadoop catalog, by the table's folder."""
    version = Path(folder, "metadata", "version-hint.text").read_text(encoding="utf-8")
    return str(folder / "metadata" / f"v{version}.metadata.json")


def iceberg_by_pyiceberg(metadata: str) -> Rows:
    rows: Rows = StaticTable.from_metadata(metadata).scan().to_arrow().to_pylist()
    return rows


def iceberg_by_duckdb(metadata: str) -> Rows:
    return query_duckdb("SELECT * FROM iceberg_scan(?)", [metadata], ("avro", "iceberg"))


def delta_by_duckdb(folder: str | Path) -> Rows:
    return query_duckdb("SELECT * FROM delta_scan(?)", [str(folder)], ("delta",))


def query_duckdb(query: str, parameters: list[Any], extensions: tuple[str, ...]) -> Rows:
    """Rows with times in UTC. extensions: of the packages `duckdb_extension_…`."""
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for name in extensions:
            spec = find_spec(f"duckdb_extension_{name}")
            assert spec is not None
            assert spec.origin is not None
            (file,) = Path(spec.origin).parent.rglob("*.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        connection.execute("SET TimeZone = 'UTC'")
        rows: Rows = connection.sql(query, params=parameters).to_arrow_table().to_pylist()
        return rows
