"""`reconcile` of a table of 20 columns: Spark's part, and what TiDB is asked for one wrong row.

The rivals of Spark's part scan the same table with a hash of all columns: `md5(concat_ws(…))`, which like ours needs
their texts, and `xxhash64(…)`, which TiDB does not have.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stderr
from io import StringIO
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks import load
from benchmarks.cpu import Stopwatch
from benchmarks.figures import Figure, Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS, _QUICK_ROWS = 10_000_000, 200_000
_LIVE_ROWS, _QUICK_LIVE_ROWS = 200_000, 50_000
_ROUNDS, _QUICK_ROUNDS = 3, 1
_CHUNK: Final = 200_000
_TARGET: Final = 1 / 1.3
_SECONDS: Final = 60.0
_MORE_QUERIES: Final = 40


def run(run: Run) -> Iterator[Figure]:
    """Checksums of a lake table. RuntimeError where rows are missing."""
    from ticdc_bridge.spark_jobs.lake.engines.spark_sql import set_for_now

    rows = run.rows or (_QUICK_ROWS if run.quick else _ROWS)
    with tempfile.TemporaryDirectory() as folder:
        spark = load.session()
        run.say(f"a lake table of {rows:,} rows")
        texts = {"at": "string", "changed": "string", "due": "string"}
        fields = (f"cast({v} as {texts[n]}) {n}" if n in texts else f"{v} {n}" for n, (_, v) in load.COLUMNS.items())
        made = spark.range(0, rows, 1, 8).selectExpr(*fields, "1L _commit_ts")
        made = made.withColumns({n: made[n].cast("smallint") for n in ("flag", "size")})
        made.write.format("delta").save(f"{folder}/wide")
        frame = spark.read.format("delta").load(f"{folder}/wide")
        groups = _groups(frame, rows)
        numbered = frame.selectExpr(*(f"{name} l_{n}" for n, name in enumerate(load.COLUMNS)), "_commit_ts _ts")
        names = ", ".join(load.COLUMNS)
        cases: dict[str, Callable[[], int]] = {
            "ours": lambda: sum(v[0] for v in groups.of_lake(numbered, "_ts > 2").values()),
            "md5": lambda: _scan(frame, f"crc32(cast(md5(concat_ws(',', {names})) as binary))"),
            "xxhash64": lambda: _scan(frame, f"xxhash64({names})"),
        }
        spent: dict[str, list[Any]] = {name: [] for name in cases}
        for number in range((_QUICK_ROUNDS if run.quick else _ROUNDS) + 1):  # the first one warms up
            for name, case in cases.items():
                run.say(f"{name}, {number}")
                with Stopwatch() as watch, set_for_now(spark, "spark.sql.ansi.enabled", "true"):
                    if case() != rows:
                        raise RuntimeError("rows are missing")
                spent[name].append(watch.spent)
        cpu = {name: median(s.cpu for s in found[1:]) / rows * 1e6 for name, found in spent.items()}
        yield Figure("reconcile-lake", cpu["ours"], "µs CPU a row", "less", cpu["md5"], _TARGET, "rival: md5 of texts")
        yield Figure("reconcile-lake.xxhash64", cpu["ours"], "µs CPU a row", "less", cpu["xxhash64"])
        wall = median(s.wall for s in spent["ours"][1:])
        yield Figure("reconcile-lake.wall", wall / rows * 1e7, "s for 10 million rows", "less", _SECONDS, 1)


def run_live(run: Run) -> Iterator[Figure]:
    """A live TiDB, which tests/support/tidb starts. RuntimeError where the wrong row is not found."""
    import pymysql

    from tests.support.tidb import running_tidb

    rows = run.rows or (_QUICK_LIVE_ROWS if run.quick else _LIVE_ROWS)
    with tempfile.TemporaryDirectory() as folder, running_tidb(Path(folder) / "tidb") as port:
        root, spark = Path(folder), load.session()
        run.say(f"a table of {rows:,} rows")
        load.write_dump(spark, root / "sql", "sql", rows)
        load.replay(root / "sql", port)
        with closing(pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True)) as connection:
            cursor = connection.cursor()

            def asked() -> int:
                cursor.execute("SELECT SUM(exec_count) FROM information_schema.statements_summary"
                               " WHERE stmt_type IN ('Select', 'Show', 'Begin')")  # fmt: skip
                return int(cursor.fetchone()[0])

            words = ["--table", "shop.wide", "--wait", "60s", "--chunk", str(rows // 50), "--out", f"{root}/found"]
            words += ["--tidb", f"mysql://root@127.0.0.1:{port}", "--lake", f"delta:{root}/lake"]
            with redirect_stderr(StringIO()) as said:
                load.run_load(f"mysql://root@127.0.0.1:{port}", root / "lake")
                first = asked()
                codes = [load.main_code("reconcile", *words)]
                equal = asked() - first
                spark.sql(f"UPDATE delta.`{root}/lake` SET price = price + 0.01 WHERE id = {rows // 3}")
                first = asked()
                codes.append(load.main_code("reconcile", *words))
                wrong = asked() - first
            if codes != [0, 1] or len((root / "found").read_text().splitlines()) != 1:
                raise RuntimeError(said.getvalue())
            yield Figure("reconcile-tidb.queries", equal, "statements for 50 chunks", "less")
            yield Figure("reconcile-tidb.more", wrong - equal, "more for one wrong row", "less", _MORE_QUERIES, 1)


def _groups(frame: DataFrame, rows: int) -> Any:
    """As `reconcile` has them of TiDB, without TiDB."""
    from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
    from ticdc_bridge.schemas.ddl.parser.lexer import SHOW
    from ticdc_bridge.spark_jobs.snapshots.checksums import Groups
    from ticdc_bridge.spark_jobs.snapshots.tidb_reader import TidbServer, TidbTable

    shown = DdlText(1, "shop", load.CREATE, SHOW, "UTC", "")
    table = versions([shown])[-1].table
    server: Any = TidbServer(None, "UTC")  # type: ignore[arg-type]  # nobody asks it
    source = TidbTable(table, shown, table.columns, server, _CHUNK)
    vars(source)["key"] = {"`id`": table.columns[0]}
    groups = Groups(source, {field.name: field.dataType.simpleString() for field in frame.schema})
    vars(groups)["_cuts"] = [str(cut) for cut in range(_CHUNK, rows, _CHUNK)]
    return groups


def _scan(frame: DataFrame, value: str) -> int:
    return int(frame.selectExpr(f"{value} h").selectExpr("sum(h % 1000)", "count(*)").collect()[0][1])
