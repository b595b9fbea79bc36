"""A Kafka broker (KRaft, one node, loopback) from the pinned jars: what `demo --kafka` and the tests start."""

import base64
import subprocess
import uuid
from pathlib import Path
from typing import Final

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.runtime.jars import ivy_jar, jars
from ticdc_bridge.spark_jobs.runtime.java import find_java

START_SECONDS: Final = 90
# pyspark's log4j 2 gives the broker a log; it takes the place of the table's bare slf4j-api.
_LOGGING: Final = (
    "slf4j-api-*.jar", "log4j-api-*.jar", "log4j-core-*.jar", "log4j-slf4j2-impl-*.jar", "log4j-1.2-api-*.jar",
)  # fmt: skip
_SERVER: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=BROKER://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=BROKER://127.0.0.1:{broker}
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
log.retention.hours=-1
"""
_LOG4J: Final = """\
status = error
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
"""


def prepare_broker(folder: Path, port: int, controller_port: int, settings: str = "") -> list[str]:
    """Writes a broker's settings into an empty folder and formats its storage there; the command that runs it.

    settings: more lines of server.properties. SetupError JAVA_MISSING, JAR_MISSING; USAGE with Kafka's output.
    """
    logging = [jar for pattern in _LOGGING for jar in ivy_jar().parent.glob(pattern)]
    class_path = [*logging, *(jar for jar in jars("kafka") if not jar.name.startswith("slf4j-api-"))]
    log4j, properties = folder / "log4j2.properties", folder / "server.properties"
    log4j.write_text(_LOG4J)
    properties.write_text(_SERVER.format(broker=port, controller=controller_port, data=folder / "data") + settings)
    java = [
        *(str(find_java().executable), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *(f"-Dlog4j2.configurationFile={log4j}", "-cp", ":".join(map(str, class_path))),
    ]
    cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]  # no "-" first: it begins an option
    tool = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)]
    done = subprocess.run(tool, capture_output=True, text=True, errors="replace", timeout=START_SECONDS, check=False)
    if done.returncode != 0:
        details = f"Kafka's storage in {folder} can't be formatted: {(done.stdout + done.stderr)[-4000:]}"
        raise SetupError("USAGE", details=details)
    return [*java, "kafka.Kafka", str(properties)]
