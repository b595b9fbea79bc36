"""Small dumps in SQL as Dumpling writes them, of a table that a test makes up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

TSO = 470000000000000000


def write_dump(folder: Path, columns: str, files: Sequence[Sequence[str]], table: str = "t") -> str:
    """A dump of shop.TABLE at TSO; files: of each file its rows, `(value,…)`. What --source calls it."""
    folder.mkdir(exist_ok=True)
    (folder / "metadata").write_text(f"SHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: {TSO}\n\tGTID:\n")
    (folder / "shop-schema-create.sql").write_text("CREATE DATABASE `shop`;\n")
    (folder / f"shop.{table}-schema.sql").write_text(f"CREATE TABLE `{table}` ({columns});\n")
    for number, rows in enumerate(files):
        text = f"/*!40101 SET NAMES binary*/;\nINSERT INTO `{table}` VALUES\n" + ",\n".join(rows) + ";\n"
        (folder / f"shop.{table}.{number:09}.sql").write_text(text)
    return f"dumpling:{folder}"
