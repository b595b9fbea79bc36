"""Classes of our own for Spark's JVM: Java's text, compiled once a machine by Janino, which Spark itself has.

The archive of them is kept in the cache, and Spark brings it to the executors of a cluster.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.resources
import io
import logging
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ticdc_bridge.schemas.columnar.kernels import avro_codes
from ticdc_bridge.spark_jobs.runtime.cache import cache_dir, write_atomically
from ticdc_bridge.spark_jobs.runtime.spark_version import Version, major_minor
from ticdc_bridge.spark_jobs.spark.avro_jvm import program_codes
from ticdc_bridge.spark_jobs.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONSTANTS = {"Steps": avro_codes, "Codes": program_codes}
"""Java's constants are Python's numbers."""
_SOURCES: tuple[str, ...] = (
    "ArrowRowWriter.java", "AvroInput.java", "AvroRows.java", "BinaryRows.java", "OperatorStrategy.java",
    "Refused.java", "RefusedRows.java", "RefusedRowsExec.java", "RowValues.java", "TunedWorkerExec.java",
    "TunedWorkerRunner.java",
)  # fmt: skip
_KAFKA_SOURCES: tuple[str, ...] = ("KafkaSend.java",)
"""In an archive of their own: Kafka's classes are not in each session."""
_log = logging.getLogger(__name__)


VERSIONS: frozenset[Version] = frozenset({(4, 1)})
"""Versions of Spark whose inner classes the reader is written for, and was tested with."""

_loaders: dict[str, tuple[Any, str] | None] = {}
"""Of each application, and of its classes for Kafka: their loader and their package; None where they can't be had."""


def class_of(spark: SparkSession, name: str) -> Any | None:
    """The class `name` of ours as java.lang.Class; None where it may not be used, which is logged once: a Spark Connect
    session (its JVM is elsewhere), a version of Spark that is not among VERSIONS, a JVM that refuses it.
    """
    application = "Spark Connect" if is_connect(spark) else str(spark.sparkContext.applicationId)
    sources, lost = _SOURCES, "Avro is read in Python's workers, and rows go there and back as Spark sends them"
    if f"{name}.java" in _KAFKA_SOURCES:
        sources, lost = _KAFKA_SOURCES, "messages go to Kafka as Spark sends them"
        application += "/kafka"
    if application not in _loaders:
        _loaders[application] = None
        reason = _refusal(spark)
        if reason is None:
            try:
                _loaders[application] = _loader(spark, spark._jvm, sources)
            except Exception as error:  # whatever Py4J, Spark or the disk has to say: there is another way
                reason = f"its JVM does not take our classes: {str(error).partition(chr(10))[0]}"
        if reason is not None:
            _log.warning("%s: %s", lost, reason)
    entry = _loaders[application]
    if entry is None:
        return None
    jvm: Any = spark._jvm
    return jvm.java.lang.Class.forName(f"{entry[1]}.{name}", True, entry[0])


def _refusal(spark: SparkSession) -> str | None:
    """Why our classes are not tried in this session; None where they are."""
    if is_connect(spark):
        return "this is a Spark Connect session"
    if major_minor(spark.version) not in VERSIONS:
        tested = ", ".join(f"{major}.{minor}" for major, minor in sorted(VERSIONS))
        return f"this is Spark {spark.version}, and the JVM reader is tested on {tested}"
    return None


def instance(spark: SparkSession, of: Any, *arguments: Any) -> Any:
    """A new object of a class that `class_of` gave."""
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(gateway.jvm.java.lang.Object, len(arguments))
    for n, argument in enumerate(arguments):
        array[n] = argument
    return of.getConstructors()[0].newInstance(array)


def plan_operators(spark: SparkSession) -> None:
    """Brings the session's planner our operators, where it takes the classes (OperatorStrategy.java)."""
    if _refusal(spark) is None and (strategy := class_of(spark, "OperatorStrategy")) is not None:
        jvm_session: Any = spark._jsparkSession
        instance(spark, strategy, jvm_session.experimental())


def send_with_ids(rows: DataFrame, options: Mapping[str, str], header: str) -> bool:
    """Sends messages to Kafka (KafkaSend.java), each with its id in `header`; False where the class can't be had.

    rows: key, value, headers, partition, position, number, part, and topic where the sink's options have none.
    """
    sender = None if _refusal(rows.sparkSession) else class_of(rows.sparkSession, "KafkaSend")
    if sender is None:
        return False
    names = ["key", "value", "headers", "partition", "position", "number", "part"]
    frame = rows.select(*names, *([] if "topic" in options else ["topic"]))
    instance(rows.sparkSession, sender).send(frame._jdf, dict(options), header)
    return True


def invoke(
    spark: SparkSession,
    target: Any,
    name: str,
    kind: Any,
    *arguments: Any,
    deterministic: bool = True,
    nullable: bool = False,
) -> Any:
    """Spark's expression that calls a method of an object of ours. kind: the type it gives, as the JVM has it.

    nullable: it gives NULL, and is not called, where an argument is NULL.
    """
    jvm: Any = spark._jvm
    sql, seq = jvm.org.apache.spark.sql, jvm.PythonUtils.toSeq
    of = sql.catalyst.expressions.Literal(target, sql.types.ObjectType(target.getClass()))
    return sql.catalyst.expressions.objects.Invoke(
        of, name, kind, seq([*arguments]), seq([]), nullable, nullable, deterministic
    )


def _loader(spark: SparkSession, jvm: Any, sources: tuple[str, ...]) -> tuple[Any, str]:
    """A class loader that has the archive now, as all threads of the driver have it, and the executors' tasks."""
    archive = _archive(spark.sparkContext._gateway, sources)
    spark.sparkContext._jsc.addJar(str(archive))
    # Spark's SQL command ADD JAR would tell this thread and no other. The outermost loader that takes archives is the
    # one that all threads began with.
    loader, url_loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader(), None
    kind = jvm.java.lang.Class.forName("org.apache.spark.util.MutableURLClassLoader")
    while loader is not None:
        url_loader = loader if kind.isInstance(loader) else url_loader
        loader = loader.getParent()
    if url_loader is None:
        raise RuntimeError("its class loader takes no archives")
    url_loader.addURL(jvm.java.io.File(str(archive)).toURI().toURL())
    return url_loader, archive.stem


@cache  # where the cache can't be written, a second application would compile what its JVM has: Janino can't
def _archive(gateway: Any, sources: tuple[str, ...]) -> Path:
    """An archive of classes, made if it is not in the cache. Its name is their package's, and says what it is of:
    a JVM may outlive an upgrade of ours, or serve two of them.
    """
    folder = importlib.resources.files(__name__)
    texts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in sources}
    for name, module in _CONSTANTS.items():
        numbers = ", ".join(f"{n} = {v}" for n, v in vars(module).items() if n.isupper() and isinstance(v, int))
        texts[f"{name}.java"] = f"package ticdcbridge; final class {name} {{ static final int {numbers}; }}"
    of = hashlib.sha256("\0".join([gateway.jvm.org.apache.spark.package.SPARK_VERSION(), *texts.values()]).encode())
    package = f"ticdcbridge_{of.hexdigest()[:16]}"
    path = cache_dir() / "classes" / f"{package}.jar"
    if not path.exists():
        texts = {name: text.replace("package ticdcbridge;", f"package {package};") for name, text in texts.items()}
        content = _compile(gateway, texts)
        try:
            write_atomically(path, content)
        except OSError:  # a cache that can't be written: each process has its own
            temporary = tempfile.mkdtemp(prefix="ticdc-bridge-")
            atexit.register(shutil.rmtree, temporary, ignore_errors=True)
            path = Path(temporary) / path.name
            write_atomically(path, content)
    return path


def _compile(gateway: Any, texts: Mapping[str, str]) -> bytes:
    """Java's texts → an archive of their classes."""
    jvm = gateway.jvm
    with tempfile.TemporaryDirectory(prefix="ticdc-bridge-") as folder:
        class_dir, files = Path(folder) / "made", gateway.new_array(jvm.java.io.File, len(texts))
        for number, (name, text) in enumerate(texts.items()):
            (Path(folder) / name).write_text(text, encoding="utf-8")
            files[number] = jvm.java.io.File(str(Path(folder) / name))
        loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
        compilers = jvm.org.codehaus.commons.compiler.CompilerFactoryFactory.getDefaultCompilerFactory(loader)
        compiler = compilers.newCompiler()
        compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))  # which has Kafka's jars
        compiler.setDestinationDirectory(jvm.java.io.File(str(class_dir)), False)
        compiler.compile(files)
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
            for path in sorted(class_dir.rglob("*.class")):
                # One time for all files: the same texts give the same archive.
                entry = zipfile.ZipInfo(str(path.relative_to(class_dir)), (1980, 1, 1, 0, 0, 0))
                out.writestr(entry, path.read_bytes())
        return archive.getvalue()
