"""What Spark's exceptions say of a job: what died, what was away. By their text: Spark has no types for it."""

from __future__ import annotations

from schemas.errors import SetupError


def worker_died(error: Exception) -> bool:
    """Whether a Python worker was killed, as often as Spark tries a task."""
    return "Python worker exited unexpectedly" in str(error)


def executors_died(error: Exception) -> bool:
    """Whether a cluster lost executors, as often as Spark tries a stage."""
    return "ExecutorLostFailure" in str(error) or "executor lost" in str(error).lower()


def kafka_away(error: Exception) -> bool:
    """Whether Kafka was away, rather than that its data are gone or the job is wrong."""
    text = str(error)
    gone = ("data loss", "failOnDataLoss", "UnknownTopicOrPartition", "OffsetOutOfRange", "PARTITION_OFFSET_CHANGED")
    away = ("TimeoutException", "DisconnectException", "org.apache.kafka.common.errors", "Connection refused")
    return not any(word in text for word in gone) and any(word in text for word in away)


def shortened(error: Exception) -> str:
    text = str(error).split("JVM stacktrace")[0].strip()
    return " ".join(text.split())[:600]


def told(error: Exception) -> SetupError | None:
    """Why a batch job ended, where that is no defect of ours; None for anything else."""
    if worker_died(error):
        details = f"a Python worker died as often as its task was tried (out of memory?): {shortened(error)}"
        return SetupError("STOPPED", where="a Spark task", details=details)
    if executors_died(error):
        return SetupError("STOPPED", where="a Spark task", details=f"executors were lost: {shortened(error)}")
    if kafka_away(error) and "kafka" in str(error).lower():
        return SetupError("KAFKA_UNREACHABLE", servers="the brokers given", details=shortened(error))
    return None


__all__ = ["executors_died", "kafka_away", "shortened", "told", "worker_died"]
