"""What Spark's exceptions say of a job: what died, what was away. By their text: Spark has no types for it."""

from __future__ import annotations

from schemas.errors import SetupError


def worker_died(error: Exception) -> bool:
    """Whether a Python worker was killed, as often as Spark tries a task."""
    return "Python worker exited unexpectedly" in str(error)


def kafka_away(error: Exception) -> bool:
    """Whether Kafka was away, rather than that its data are gone or the job is wrong."""
    text = str(error)
    gone = ("data loss", "failOnDataLoss", "UnknownTopicOrPartition", "OffsetOutOfRange", "PARTITION_OFFSET_CHANGED")
    away = ("TimeoutException", "DisconnectException", "org.apache.kafka.common.errors", "Connection refused")
    return not any(word in text for word in gone) and any(word in text for word in away)


def shortened(error: Exception) -> str:
    text = str(error).split("JVM stacktrace")[0].strip()
    return " ".join(text.split())[:600]


_STOPPED = {
    "Python worker exited unexpectedly": "a Python worker died as often as its task was tried (out of memory?)",
    "ExecutorLostFailure": "executors were lost as often as their tasks were tried",
    "OutOfMemoryError": "a JVM has too little memory (spark.driver.memory, spark.executor.memory)",
    "No space left on device": "a disk is full",
}
_NO_MASTER = ("Could not parse Master URL", "All masters are unresponsive", "Invalid master URL")


def told(error: Exception) -> SetupError | None:
    """Why a batch job ended, where that is no defect of ours; None for anything else."""
    text = str(error)
    if any(words in text for words in _NO_MASTER):
        return SetupError("USAGE", details=f"--master: {shortened(error)}")
    for words, why in _STOPPED.items():
        if words in text:
            return SetupError("STOPPED", where="a Spark task", details=f"{why}: {shortened(error)}")
    if kafka_away(error) and "kafka" in text.lower():
        return SetupError("KAFKA_UNREACHABLE", servers="the brokers given", details=shortened(error))
    return None


__all__ = ["kafka_away", "shortened", "told", "worker_died"]
