"""Hive's metastore of this machine: the server among pyspark's jars, with Derby."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.kafka import free_ports
from tests.support.processes import until
from ticdc_bridge.spark_jobs.runtime.java import find_java

_SERVER = "org.apache.hadoop.hive.metastore.HiveMetaStore"


@contextmanager
def hive_metastore(folder: Path, warehouse: Path) -> Iterator[str]:
    """Its URL; new databases are in the warehouse. It knows no locks: the jars of their connections are not here."""
    folder.mkdir()
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/db;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "NONE",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(warehouse),
        "hive.async.log.enabled": "false",
    }
    pairs = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    (folder / "hive-site.xml").write_text(f"<configuration>{''.join(pairs)}</configuration>")
    (port,) = free_ports(1)
    jars = Path(pyspark.__file__).parent / "jars"
    command = [str(find_java().executable), "-Xmx256m", f"-Dderby.stream.error.file={folder}/derby.log"]
    command += [f"-Djava.io.tmpdir={folder}", "-cp", f"{folder}{os.pathsep}{jars}/*", _SERVER, "-p", str(port)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)

    def answers() -> bool:
        assert server.poll() is None, (folder / "log").read_text(errors="replace")[-3000:]
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(answers, "Hive's metastore answers")
        yield f"thrift://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
