"""What Spark's exceptions say of a job: what died, what was away. By their text: Spark has no types for it."""

import errno
import re
import signal
import subprocess
import sys
from typing import Any

from ticdc_bridge.extras import NAME, missing_package
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import reason_of


def is_conflict(error: BaseException | None) -> bool:
    """True if another job changed a table between the reads and the commit of this one: it is to be done again."""
    while error is not None and not _CONFLICTS.search(f"{type(error).__name__}: {error}"):
        error = error.__cause__
    return error is not None


def is_kafka_away(error: Exception) -> bool:
    """True if Kafka was away, rather than that its data are gone, it refuses what it is given, or the job is wrong."""
    text = str(error)
    losses = ("data loss", "failOnDataLoss", "UnknownTopicOrPartition", "OffsetOutOfRange", "PARTITION_OFFSET_CHANGED")
    away = ("TimeoutException", "DisconnectException", "org.apache.kafka.common.errors", "Connection refused")
    return not any(word in text for word in (*losses, *_REFUSED)) and any(word in text for word in away)


_UNKNOWN_TOPIC = re.compile(r"UnknownTopicOrPartition|Topic (\S+) not present in metadata")


def unknown_topic(error: Exception) -> SetupError | None:
    """That a topic is not there, as far as Kafka's client can tell; None where it is another error."""
    if (match := _UNKNOWN_TOPIC.search(str(error))) is None:
        return None
    details = f"there is no such topic, and the broker makes none: {shorten_message(error)}"
    return SetupError("UNKNOWN_TOPIC", topic=match[1] or "written or read", details=details)


_REFUSED = (
    "RecordTooLargeException", "RecordBatchTooLargeException", "InvalidTopicException", "AuthorizationException",
    "AuthenticationException", "InvalidRecordException", "PolicyViolationException", "SerializationException",
    "UnsupportedVersionException", "UnsupportedCompressionTypeException", "InvalidTimestampException",
)  # fmt: skip
"""Kafka's exceptions that come again however often something is tried."""
_REPORTED = re.compile(rf"(\w*(?:{'|'.join(_REFUSED)}))(?::\s*([^\n]+))?")
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] ([^\n]+?)(?: SQLSTATE: \w+)?(?:\n|$)")
_LOST = re.compile(r"Some data may have been lost|failOnDataLoss")
_WHICH = re.compile(r"Reason: (.+?)(?:\n|with consumer group|$)|(Partition\(s\)? .+? offset was changed[^\n]*)")


def kafka_refusal(error: Exception) -> str | None:
    """What Kafka refuses, and why; None where it is another error."""
    match = _REPORTED.search(str(error))
    return None if match is None else match[1] + (f": {match[2].strip()[:500]}" if match[2] else "")


def lost_offsets(error: Exception) -> str | None:
    """Which offsets Kafka has no longer; None where it is another error."""
    text = str(error)
    if not _LOST.search(text):
        return None
    match = _WHICH.search(text)
    return (match[1] or match[2]).strip() if match else "not all offsets that were to be read are there"


def raised_message(error: Exception) -> str | None:
    """What a query of ours raised by itself (`raise_error`); None where it is another error."""
    match = _RAISED.search(str(error))
    return match[1].strip() if match else None


def shorten_message(error: Exception) -> str:
    text = str(error).split("JVM stacktrace")[0].strip()
    return " ".join(text.split())[:600]


_MEMORY = "Check the memory of the machine or container, and Spark's (--conf spark.driver.memory=2g; 1g by default)"
_ENDINGS = {
    -signal.SIGKILL: f"was killed (SIGKILL): mostly the system does so where memory is short. {_MEMORY}",
    -signal.SIGTERM: "was stopped (SIGTERM) by somebody else",
    1: "ended with exit code 1: what it printed is above",
    52: f"ran out of memory (exit code 52). {_MEMORY}",
}
"""By what `Popen.returncode` says. 52 is Spark's (org.apache.spark.util.SparkExitCode.OOM)."""
_AS_A_SHELL = 128
_SECONDS_TO_END = 3.0


def java_end(error: BaseException) -> SetupError | None:
    """JAVA_ENDED where Spark's JVM has ended under this error; None where it runs, or the session has none here.

    Its connections break a moment before its end can be seen. Under spark-submit it is not our child: there only the
    connection tells.
    """
    if "JAVA_GATEWAY_EXITED" in str(error):
        details = f"ended before it was ready: what it printed, if anything, is above. {_MEMORY}"
        return SetupError("JAVA_ENDED", details=details)
    pyspark: Any = sys.modules.get("pyspark")
    gateway = getattr(pyspark and pyspark.SparkContext, "_gateway", None)
    if gateway is None:
        return None
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        lost = _is_behind(error, Py4JNetworkError)
        return SetupError("JAVA_ENDED", details=f"can't be reached any more. {_MEMORY}") if lost else None
    try:
        code = process.wait(_SECONDS_TO_END * _is_behind(error, Py4JNetworkError, ConnectionError, EOFError))
    except subprocess.TimeoutExpired:
        return None
    code = _AS_A_SHELL - code if code > _AS_A_SHELL else code
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return SetupError("JAVA_ENDED", details=_ENDINGS.get(code) or f"{how}: what it printed is above")


def _is_behind(error: BaseException | None, *kinds: type[Exception]) -> bool:
    """True if this error is of one of the kinds, or one that it came of."""
    while error is not None:
        if isinstance(error, kinds):
            return True
        error = error.__cause__ or error.__context__
    return False


WORKER_DIED = "Python worker exited unexpectedly"
"""In Spark's text where a Python worker was killed, as often as Spark tries a task."""
_STOPPED = {
    WORKER_DIED: "a Python worker died as often as its task was tried (out of memory?)",
    "ExecutorLostFailure": "executors were lost as often as their tasks were tried",
    "OutOfMemoryError": "a JVM has too little memory (spark.driver.memory, spark.executor.memory)",
    "No space left on device": "a disk is full",
}
_CONFLICTS = re.compile(
    r"DELTA_(?:CONCURRENT_|METADATA_CHANGED|PROTOCOL_CHANGED)\w*|io\.delta\.exceptions\.\w+"
    r"|CommitFailed(?:Exception|Error)|Found conflicting files|Missing required files to delete"
)
_NO_MASTER = ("Could not parse Master URL", "All masters are unresponsive", "Invalid master URL")

_NO_FILE_SYSTEM = re.compile(r'Class \S*FileSystem\S* not found|No FileSystem for scheme "?\w+"?')
_NO_FILE_SYSTEM_TEXT = (
    "Spark has no driver for this object store ({what}). Start the session with one: --packages "
    "org.apache.hadoop:hadoop-aws:VERSION for s3a://, org.apache.hadoop:hadoop-azure:VERSION for abfss:// "
    "(VERSION: that of Spark's Hadoop), com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26 for gs://"
)
_STORE_ERRORS = {
    "UnknownStoreException": "there is no such bucket",
    "NoAuthWithAWSException": "Spark has no credentials for S3: give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or "
    "AWS_PROFILE, a role), or --conf spark.hadoop.fs.s3a.access.key=…",
    "Unable to load credentials from": "Spark has no credentials for S3: give AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY (or AWS_PROFILE, a role)",
    "java.nio.file.AccessDeniedException": "access is denied: give credentials that may read and write there",
    "SdkClientException: Unable to execute HTTP request": "the store can't be reached: is there a network, and is "
    "AWS_ENDPOINT_URL right?",
}
_STORE_LOCATION = re.compile(r"\b(?:s3a|gs|abfss)://[^\s:,;\'\"]+")
"""What the exceptions of a store's driver mean, and the place that they name."""


_NO_KAFKA = re.compile(r"Failed to find the data source: kafka|Failed to find data source: kafka")
_NO_KAFKA_TEXT = (
    "this Spark session has no Kafka connector: start it with "
    "spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION (that of Spark), or name its jars in "
    "BRIDGE_JARS. Pinned are those of Spark 4.0, 4.1 and 4.2"
)


def missing_connector(error: Exception) -> SetupError | None:
    """That Spark has no connector for Kafka; None where it is another error."""
    return SetupError("JAR_MISSING", details=_NO_KAFKA_TEXT) if _NO_KAFKA.search(str(error)) else None


_NO_MODULE = re.compile(r"No module named '?((\w+)[\w.]*)")
_IN_WORKER = ("PythonException", "Python worker", "python worker")


def _wrong_package(error: Exception) -> str | None:
    """What is missing or in the way where Python imports packages, here or in a worker of Spark; None otherwise."""
    if isinstance(error, ImportError) and (missing := missing_package(error, "spark")) is not None:
        return missing
    text = f"{type(error).__name__}: {error}"
    absent = _NO_MODULE.search(text)
    if absent is None or not any(words in text for words in _IN_WORKER):
        return None
    if absent[2] == NAME:
        return (
            f"the Python of Spark's workers has no {absent[1]}: give the zip of `ticdc-bridge package`, of the same "
            "version as here, with --py-files"
        )
    return f"the Python of Spark's workers has no package {absent[2]}: install there what 'ticdc-bridge[spark]' brings"


_LOCATION_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)
"""Of a file's name, a folder's rights or a mount: no defect of ours, wherever it comes up."""


def error_of(error: Exception) -> SetupError | None:
    """Why a batch job ended, where that is no defect of ours; None for anything else."""
    text = str(error)
    if (end := java_end(error)) is not None:
        return end
    if isinstance(error, OSError) and error.errno in _LOCATION_ERRORS and error.filename is not None:
        return SetupError("USAGE", details=f"{error.filename}: {reason_of(error)}")
    if (message := raised_message(error)) is not None:
        return SetupError("USAGE", details=message)
    if (wrong := _wrong_package(error)) is not None:
        return SetupError("USAGE", details=wrong)
    if (missing := _NO_FILE_SYSTEM.search(text)) is not None:
        return SetupError("JAR_MISSING", details=_NO_FILE_SYSTEM_TEXT.format(what=missing[0]))
    if (connector := missing_connector(error)) is not None:
        return connector
    if (why := next((detail for words, detail in _STORE_ERRORS.items() if words in text), None)) is not None:
        match = _STORE_LOCATION.search(text)
        return SetupError("STORE_UNREACHABLE", place=match[0] if match else "an object store", details=why)
    if any(words in text for words in _NO_MASTER):
        return SetupError("USAGE", details=f"--master: {shorten_message(error)}")
    if (conflict := _CONFLICTS.search(f"{type(error).__name__}: {text}")) is not None:
        details = f"another job wrote it at the same time ({conflict[0]}): run this one again; nothing is written twice"
        return SetupError("STOPPED", where="a table of the lake", details=details)
    for words, why in _STOPPED.items():
        if words in text:
            return SetupError("STOPPED", where="a Spark task", details=f"{why}: {shorten_message(error)}")
    if (refusal := kafka_refusal(error)) is not None:
        return SetupError("STOPPED", where="Kafka", details=refusal)
    if "kafka" in text.lower() and (unknown := unknown_topic(error)) is not None:
        return unknown
    if is_kafka_away(error) and "kafka" in text.lower():
        return SetupError("KAFKA_UNREACHABLE", servers="the brokers given", details=shorten_message(error))
    return None
