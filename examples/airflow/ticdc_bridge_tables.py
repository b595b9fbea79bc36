"""Airflow 3: every ten minutes bring the lake's tables up to what TiDB has; each night put dead letters back.

    pip install apache-airflow apache-airflow-providers-apache-spark '.[spark]'       # in a clone
    ticdc-bridge package --dir /opt/ticdc-bridge        # the zip and the script that spark-submit needs
    cp examples/airflow/ticdc_bridge_tables.py "$AIRFLOW_HOME/dags/"

`--stream --trigger now` reads what came since the last run, by its checkpoint, and ends. So a run that fails, or comes
late, or twice, loses and repeats nothing, and Airflow needs no dates of its own.

Exit code 1 says that messages went to the dead letters; all other rows are written. The task fails then, so that
somebody looks at them, and is not tried again, because a second run would find nothing new and hide it.
"""

import shlex
from datetime import datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

# Your own places.
PACKAGE = "/opt/ticdc-bridge"
KAFKA_CONFIG = "/etc/ticdc-bridge/kafka.properties"  # see examples/spark-submit/kafka.properties
REGISTRY = "http://ticdc-bridge:8081"
BROKERS = "kafka:9092"
LAKE = "s3://lake"
JARS = (
    "org.apache.spark:spark-avro_2.13:4.1.1",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "io.delta:delta-spark_4.1_2.13:4.3.1",
    "org.apache.hadoop:hadoop-aws:3.4.2",
)

MERGE = [
    "merge", "--format", "avro", "--registry", REGISTRY, "--time-zone", "UTC",
    "--topics", "tidb_shop_.*", "--tables", "shop.*",
    "--bootstrap-servers", BROKERS, "--kafka-config", KAFKA_CONFIG,
    "--out", f"delta:{LAKE}/{{schema}}/{{table}}",
    "--dead-letter", "kafka:tidb_dead",
    "--stream", "--trigger", "now", "--checkpoint", f"{LAKE}/_checkpoints/shop",
]  # fmt: skip
DECODE = [
    "ticdc-bridge", "decode", "--format", "avro", "--registry", REGISTRY, "--time-zone", "UTC",
    "--in", "kafka:tidb_shop_orders", "--table", "shop.orders", "--types", "typed", "--on-lossy", "flag",
    "--bootstrap-servers", BROKERS, "--kafka-config", KAFKA_CONFIG,
    "--out", f"delta:{LAKE}/shop/orders_changes",
    "--stream", "--trigger", "now", "--checkpoint", f"{LAKE}/_checkpoints/orders_changes",
]  # fmt: skip
REPLAY = [
    "ticdc-bridge", "replay", "--in", "kafka:tidb_dead", "--out", "kafka:",
    "--bootstrap-servers", BROKERS, "--kafka-config", KAFKA_CONFIG,
    "--since", "{{ (dag_run.run_after - macros.timedelta(days=1)) | ts }}",
]  # fmt: skip
ONE_AT_A_TIME = {"start_date": datetime(2026, 1, 1), "catchup": False, "max_active_runs": 1}

with DAG("ticdc_bridge_tables", schedule=timedelta(minutes=10), **ONE_AT_A_TIME):
    merge = SparkSubmitOperator(
        task_id="merge_tables",
        conn_id="spark_default",  # spark://…, yarn, k8s://…: a connection of Airflow's
        application=f"{PACKAGE}/bridge.py",
        py_files=f"{PACKAGE}/ticdc_bridge.zip",
        packages=",".join(JARS),
        application_args=MERGE,
        retries=0,
    )
    # A small job needs no cluster: this one starts Spark on Airflow's own worker.
    decode = BashOperator(task_id="decode_changes", bash_command=shlex.join(DECODE), retries=0)
    merge >> decode

with DAG("ticdc_bridge_replay", schedule="@daily", **ONE_AT_A_TIME):
    BashOperator(task_id="replay_dead_letters", bash_command=shlex.join(REPLAY), retries=0)
