"""TiCDC Avro of one table inside the JVM: one expression of ours reads a message's row
(spark_jobs/spark/avro_jvm/AvroRows.java).

It holds messages to what the in-process decoder asks of them. With `exact` what it refuses goes to that decoder, in a
Python worker, whose event or error is taken: ids that were registered later, other headers and what else it can't read
among them. With `header` it is an error then, and no Python is started.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.formats.framing import SCHEMA_HEADERS, frame
from ticdc_bridge.schemas.inputs.schema_files import RegisteredSchema
from ticdc_bridge.schemas.inputs.subject_names import topics_of_subjects
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.schemas.model.spark_types import MAX_SPARK_PRECISION, spark_type, widens
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_type_of, spark_schema_of
from ticdc_bridge.spark_jobs.arrow.change_schema import change_schema, metric, tidb_row
from ticdc_bridge.spark_jobs.arrow.worker_functions import decode_refused
from ticdc_bridge.spark_jobs.pipeline.avro_versions import WriterSchema, newest_of, registered_versions
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.row_conversion import RowConversion
from ticdc_bridge.spark_jobs.pipeline.same_columns import same_columns
from ticdc_bridge.spark_jobs.pipeline.table_view import Missing
from ticdc_bridge.spark_jobs.spark import avro_jvm
from ticdc_bridge.spark_jobs.spark.avro_jvm.program_codes import EIGHT_BYTE_ID, OTHER_TABLE, REFUSALS, RESULT
from ticdc_bridge.spark_jobs.spark.avro_jvm.programs import ERRORS, JvmPrograms, programs
from ticdc_bridge.spark_jobs.spark.left_out_rows import leave_out


def _named_by_headers(messages: DataFrame) -> Column:
    """Whether a message's record headers say which schemas it has: its first bytes say nothing of them then."""
    if "headers" not in messages.columns:
        return F.lit(False)
    names = F.array(*(F.lit(name) for header in SCHEMA_HEADERS.values() for name in header))
    named = F.arrays_overlap(F.col("headers.key"), names)
    return F.coalesce(F.when(F.size("headers") > 0, named), F.lit(False))


_ANSWER = "_answer"
_SOURCE = ("topic", "partition", "offset", "timestamp")


@dataclass(frozen=True)
class AvroPlan:
    """How one table's messages are decoded: its key and value schemas, and the columns of the result.

    table: with the columns of its newest registered version. others: headers of other tables' records, which are left
    out and counted. missing: what a row has for a column that its version lacks. unreadable: registered versions that
    can't be read, or whose columns have no certain place in the newest, and why. unclear: ids that contexts of the
    registry use for different schemas: their messages go to the in-process decoder.
    """

    config: CodecConfig
    table: Table
    keys: tuple[WriterSchema, ...]
    values: tuple[WriterSchema, ...]
    others: tuple[bytes, ...]
    exact: bool
    missing: Missing = "null"
    unreadable: tuple[tuple[RegisteredSchema, WireError], ...] = ()
    unclear: frozenset[SchemaId] = frozenset()

    @classmethod
    def of(cls, config: CodecConfig, id_: TableId, *, exact: bool, missing: Missing = "null") -> AvroPlan | None:
        """The plan, None where Spark can't hold the versions in one set of columns: then the workers decode."""
        versions = registered_versions(config.schemas, id_, complete=True)
        if not versions.values:
            return None
        table = newest_of(versions.values, missing)
        writers = (*versions.keys, *versions.values)
        pairs = ((w.entry, same_columns(Table(table.id, w.record.columns), table).unclear) for w in writers)
        # Rows of these have no certain place in the newest columns.
        refused = [(e, WireError("TYPE_UNKNOWN", column=why[0], details=why[1])) for e, why in pairs if why]
        ids_refused = {entry.id for entry, _ in refused}
        keys, values = (
            tuple(w for w in some if w.entry.id not in ids_refused) for some in (versions.keys, versions.values)
        )
        if not _has_single_shape(values, table):
            return None
        # Each id once; the newest version last.
        keys, values = (tuple({w.entry.id: w for w in some}.values()) for some in (keys, values))
        if isinstance(config.schemas, HttpSchemas):
            config.schemas.add_known(w.entry for w in writers if w.entry.id not in versions.unclear)
        ids = {w.entry.id for w in writers} | versions.unclear
        others = tuple({frame(e.id, b"") for e in versions.others if e.id not in ids})
        return cls(
            config, table, keys, values, others, exact, missing, (*versions.unreadable, *refused), versions.unclear
        )

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the newest key schema's columns."""
        return tuple(c.name for c in self.keys[-1].record.columns) if self.keys else ()

    def decode(self, messages: DataFrame) -> DataFrame | None:
        """Messages with Kafka's columns → change events with exact structs. None: the session takes no classes."""
        spark = messages.sparkSession
        reader = avro_jvm.class_of(spark, "AvroRows")
        if reader is None:
            return None
        zone = self.config.options.time_zone
        keys, values = ([w for w in some if w.entry.id not in self.unclear] for some in (self.keys, self.values))
        jvm_programs = programs(self.table, keys, values, self._refused_ids(), self.missing, zone)
        named = _named_by_headers(messages)
        if self.exact:
            named = named | ~self._of_their_topics()
        # A select for each step: what several columns of the next one use is then worked out once.
        read = messages.select("*", _read(spark, reader, jvm_programs, self.table, named).alias("_read"))
        events = [column.alias(name) for name, column in self._columns(jvm_programs)]
        if "headers" in messages.columns:
            events.append(F.when(F.size("headers") > 0, F.col("headers")).alias("headers"))
        changes = read.select(*events)
        if self.others:
            other_kind = F.when(F.col("kind") == "other", F.col("kind"))
            changes = leave_out(changes, metric("other_tables", self.table.id), other_kind, {"other": "rows"})
        return self._rescue(changes) if self.exact else changes

    def without_others(self, messages: DataFrame) -> DataFrame:
        """Messages without those that known ids say are other tables' (counted: `ticdc_bridge_other_tables`)."""
        header, of_others = F.substring(F.coalesce("value", "key"), 1, 5), F.lit(False)
        if self.others:
            of_others = header.isin(*map(F.lit, self.others)) & ~_named_by_headers(messages)
        marked = messages.withColumn("_kind", F.when(of_others, "other"))
        return leave_out(marked, metric("other_tables", self.table.id), F.col("_kind"), {"other": "rows"}).drop("_kind")

    def _of_their_topics(self) -> Column:
        """Whether a message's topic is one that the schemas are registered for: of others their ids may mean another
        schema, elsewhere. A mirrored topic has the name of its cluster before its own.
        """
        subjects = (writer.entry.subject for writer in (*self.keys, *self.values))
        topics = topics_of_subjects(subjects) if isinstance(self.config.schemas, HttpSchemas) else None
        if topics is None:  # or the subjects do not say (strategies by record)
            return F.lit(True)
        of_topics = F.col("topic").isNull() | F.col("topic").isin(*topics)
        of_topics = of_topics | F.replace("topic", F.lit("."), F.lit("_")).isin(*topics)
        for topic in sorted(topics):
            of_topics = of_topics | F.endswith("topic", F.lit(f".{topic}"))
        return of_topics

    def _refused_ids(self) -> dict[int, int]:
        """Schema ids of which every message is refused, with the reader's code."""
        others = {int.from_bytes(header[1:], "big", signed=True) for header in self.others if len(header) == 5}
        codes = {0: EIGHT_BYTE_ID, **dict.fromkeys(others, OTHER_TABLE)}  # no registry gives the id 0
        for number, (entry, _) in enumerate(self.unreadable, REFUSALS + 1):
            if isinstance(entry.id, int):
                codes[entry.id] = number
        return codes

    def _rescue(self, events: DataFrame) -> DataFrame:
        """Change events, with what the in-process decoder makes of the messages that the reader refuses."""
        row = tidb_row(self.table, certain=False)
        schema = change_schema(arrow_type_of(row.jsonValue()), headers=False)
        kind = spark_schema_of(schema)  # without metadata, which do not come back from Python
        rescuer = decode_refused(self.config, self.table, arrow_type_of(kind.jsonValue()))
        topic = F.when(F.col("kind").isNull(), F.coalesce("source.topic", F.lit("")))
        none = F.lit(None).cast("array<struct<key:string,value:binary>>")
        headers = F.col("headers") if "headers" in events.columns else none
        answer = F.arrow_udf(rescuer, kind)("error.key", "error.value", topic, headers)  # type: ignore[attr-defined]
        answers = {name: F.col(_ANSWER)[name] for name in schema.names}
        answers |= {name: answers[name].cast(row) for name in ("before", "after")}
        columns = {
            name: F.col(name) if name in ("source", "headers") else F.coalesce(name, answers[name])
            for name in events.columns
        } | {"error": answers["error"]}
        return _ask_python(
            events, answer, metric("late_tables", self.table.id), (c.alias(name) for name, c in columns.items())
        )

    def _columns(self, jvm_programs: JvmPrograms) -> Iterator[tuple[str, Column]]:
        """The columns of a change event. Of one that is refused, and that Python is asked about, most are NULL."""
        read = {name: F.col("_read")[name] for name in RESULT}
        ok, code = read["code"] == 0, read["code"]
        none = F.array().cast("array<string>")
        unknown = F.array(F.lit("op_unknown"))
        row, bad = F.when(ok, F.lit("row")), ~ok
        if self.others:
            row, bad = row.when(code == OTHER_TABLE, F.lit("other")), bad & (code != OTHER_TABLE)
        yield "kind", row if self.exact else F.coalesce(row, F.lit("error"))
        yield "op", read["op"]
        yield "commit_ts", read["commit_ts"]
        yield "commit_time", F.timestamp_millis(F.shiftright(read["commit_ts"], 18))
        yield "db", F.when(ok, F.lit(self.table.id.db))
        yield "table", F.when(ok, F.lit(self.table.id.table))
        yield "schema_id", read["id"]
        yield "table_version", F.lit(None).cast("bigint")
        names: Any = F.when(read["key"] == 0, none)  # NULL where there is no row
        for number, key in enumerate(jvm_programs.keys, 1):
            names = names.when(read["key"] == number, F.array(*map(F.lit, key)))
        yield "key", names
        yield "before", read["before"]
        yield "after", read["after"]
        yield "flags", F.when(ok, F.when(read["op_unknown"], unknown).otherwise(none))
        # Spark's optimizer may not take these for NULL where Python can say something else: no code is below 0.
        never = code < 0 if self.exact else F.lit(False)
        yield "ddl_type", F.when(never, F.lit(0))
        yield "query", F.when(never, F.lit(""))
        yield "row", F.lit(0)
        yield "source", F.struct(*_SOURCE)
        why = [F.when(never, F.lit(""))] * 2
        if not self.exact:
            refusals = [(e.code, f"{r.subject} version {r.version}: {e.detail}") for r, e in self.unreadable]
            texts = zip(*ERRORS.values(), *refusals, strict=True)
            why = [F.element_at(F.array(*map(F.lit, text)), code) for text in texts]
        pieces = (c.alias(n) for c, n in zip(why, ("code", "detail"), strict=True))
        yield "error", F.when(bad, F.struct(*pieces, F.col("key"), F.col("value")))


def _ask_python(events: DataFrame, answer: Column, metric_name: str, columns: Iterable[Column]) -> DataFrame:
    """Change events, of which the refused ones have no `kind`, their first column → with what Python says of these
    (avro_jvm/RefusedRows.java); all others pass as they are.

    Spark's own operator for a Python function sends each row to a worker and back. Its optimizer sees a node that
    observes metrics, which it neither moves nor takes apart; a strategy of ours plans our operator for it.
    answer: the Python function of a refused row, which the row has as _ANSWER then; it gives NULL for others. columns:
    those of the events, made of them and _ANSWER. Events of the kind "other" are left out and counted, by the observed
    metric, as `rows`.
    """
    spark: Any = events.sparkSession
    sql, seq = spark._jvm.org.apache.spark.sql, spark._jvm.PythonUtils.toSeq
    with_answer = events.select("*", answer.alias(_ANSWER))
    plan, asked, made = (
        frame._jdf.queryExecution().analyzed() for frame in (events, with_answer, with_answer.select(*columns))
    )
    function = asked.expressions().last().child()
    sql.classic.SparkSession.setActiveSession(spark._jsparkSession)  # whose settings an operator takes
    scan = sql.execution.LocalTableScanExec(plan.output(), seq([]), spark._jvm.scala.Option.empty())
    python = sql.execution.python.ArrowEvalPythonExec(
        seq([function]), seq([asked.output().last()]), scan, function.evalType()
    )
    avro_jvm.plan_operators(spark)
    refused_rows = avro_jvm.class_of(spark, "RefusedRows")
    rows = avro_jvm.instance(spark, refused_rows, python.evaluatorFactory(), asked.output(), made.expressions())
    # All columns are named, so that none is pruned below the operator, which knows them by their places.
    row = spark._jsparkSession.expression(F.struct(*events.columns)._jc)
    mark = avro_jvm.invoke(spark, rows, "mark", sql.types.DataType.fromDDL("int"), row, nullable=True)
    calls = F.count(Column(sql.classic.ExpressionUtils.column(mark))).alias("rows")
    metrics = seq([spark._jsparkSession.expression(calls._jc)])
    node = sql.catalyst.plans.logical.CollectMetrics(metric_name, metrics, plan, events._jdf.id())
    return DataFrame(sql.classic.Dataset.ofRows(spark._jsparkSession, node), spark)


def _read(spark: SparkSession, reader: Any, jvm_programs: JvmPrograms, table: Table, named: Column) -> Column:
    """What the reader tells of the message in `key` and `value`: struct of RESULT. named: as AvroRows has it."""
    jvm: Any = spark._jvm
    sql = jvm.org.apache.spark.sql
    entry = avro_jvm.instance(spark, reader, bytearray(jvm_programs.packed))
    columns = sql.classic.ExpressionUtils
    arguments = [columns.expression(c._jc) for c in (F.col("key"), F.col("value"), named)]
    row = tidb_row(table, certain=False).jsonValue()
    kinds = ("integer", "integer", "string", "long", "boolean", "integer", row, row)
    fields = [
        {"name": name, "type": kind, "nullable": name != "code", "metadata": {}}
        for name, kind in zip(RESULT, kinds, strict=True)
    ]
    result_type = sql.types.DataType.fromJson(json.dumps({"type": "struct", "fields": fields}))
    # Not deterministic, or a filter on the result would be pushed below it, with a second reading of each message.
    call = avro_jvm.invoke(spark, entry, "read", result_type, *arguments, deterministic=False)
    return Column(columns.column(call))


def _has_single_shape(values: tuple[WriterSchema, ...], table: Table) -> bool:
    """True when each version's columns can be cast to the newest's as TiDB converts them, in types that Spark holds."""
    newest = table.by_name
    folded = {name.lower() for name in newest}
    if len(folded) < len(newest):
        return False
    if any(c.type.kind is Kind.DECIMAL and (c.length or 0) > MAX_SPARK_PRECISION for c in newest.values()):
        return False  # its bytes are text in Spark's rows, which takes the decoder
    for writer in values:
        for column in writer.record.columns:
            other = newest.get(column.name)
            if other is not None and not widens(spark_type(column), spark_type(other)):
                return False
        conversion = RowConversion.of(Table(table.id, writer.record.columns), table, older=True)
        if conversion.names or not all(step.widens for step in conversion.steps):
            return False
    return True
