"""TiDB's DDL: statements parsed a second, beside sqlglot, and a catalog that grows to 10,000 tables.

The statements are those of the recorded histories, in the form TiCDC sends (tests/golden/ddl). sqlglot is the parser
that people reach for; it can't read all of them, so the two are compared on those that it reads without falling back
to an unparsed command. It does less: it knows neither a catalog nor TiDB's clauses.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.figures import Figure, Run
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.schemas.ddl.parser.lexer import WIRE
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse

HISTORIES = Path(__file__).parents[1] / "tests" / "golden" / "ddl"
REQUIRED = 2000.0
TABLES = 10_000
COLUMNS = 12
# A catalog of all tables may be this much slower, a statement, than one of a tenth.
LINEAR = 0.8


def run(asked: Run) -> Iterator[Figure]:
    """Figures in statements a CPU second of one core. RuntimeError where the histories are not there."""
    statements = _statements()
    rounds = 3 if asked.quick else 7
    asked.say(f"{len(statements)} statements of the histories, {rounds} rounds")
    rate = _rate(statements, lambda s: parse(s, WIRE), rounds)
    note = "the rival's value is the rate that is asked for"
    yield Figure("ddl.parse.against-required", rate, "statements/s", "more", REQUIRED, 1.0, note)
    common = [s for s in statements if _sqlglot_reads(s)]
    asked.say(f"sqlglot reads {len(common)} of them")
    yield Figure("ddl.parse.read-by-sqlglot", len(common), "statements", "more", float(len(statements)))
    ours, rival = _rates(common, rounds)
    yield Figure("ddl.parse.against-sqlglot", ours, "statements/s", "more", rival)
    total = asked.rows or (TABLES // 4 if asked.quick else TABLES)
    tenth, all_ = _growing(total // 10), _growing(total)
    yield Figure(f"ddl.apply.{total}-tables-against-a-tenth", all_, "statements/s", "more", tenth, LINEAR)


def _statements() -> list[str]:
    found: dict[str, None] = {}
    for path in sorted(HISTORIES.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").split("\n"):
            if line:
                found.update(dict.fromkeys(entry["q"] for entry in json.loads(line)["wire"]))
    if not found:
        raise RuntimeError(f"no histories in {HISTORIES}")
    return list(found)


def _rate(statements: list[str], read: Callable[[str], object], rounds: int) -> float:
    """Statements a CPU second, the median of some rounds."""
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        for statement in statements:
            read(statement)
        taken.append(time.process_time() - started)
    return len(statements) / statistics.median(taken)


def _rates(statements: list[str], rounds: int) -> tuple[float, float]:
    """Ours and sqlglot's rates, the rounds in turn."""
    import sqlglot

    ours, rival = [], []
    for _ in range(rounds):
        ours.append(_rate(statements, lambda s: parse(s, WIRE), 1))
        rival.append(_rate(statements, lambda s: sqlglot.parse_one(s, dialect="mysql"), 1))
    return statistics.median(ours), statistics.median(rival)


def _sqlglot_reads(statement: str) -> bool:
    import logging

    import sqlglot
    from sqlglot import exp

    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        return not isinstance(sqlglot.parse_one(statement, dialect="mysql"), exp.Command)
    except sqlglot.errors.SqlglotError:
        return False


def _growing(tables: int) -> float:
    """Statements a CPU second while a catalog grows to so many tables: a CREATE and an ALTER for each."""
    columns = ",".join(f"`c{n}` VARCHAR(32) DEFAULT _UTF8MB4'x'" for n in range(COLUMNS))
    catalog = new_catalog()
    started = time.process_time()
    for number in range(tables):
        name = f"`t{number}`"
        create = f"CREATE TABLE {name} (`id` BIGINT PRIMARY KEY,{columns})"
        for statement in (create, f"ALTER TABLE {name} ADD COLUMN `added` INT NOT NULL DEFAULT 7 AFTER `id`"):
            catalog = apply(catalog, parse(statement, WIRE), "test")
    taken = time.process_time() - started
    database = catalog.databases.get("test")
    if database is None or len(database.tables) != tables:
        raise RuntimeError(f"the catalog does not have {tables} tables")
    return 2 * tables / taken
