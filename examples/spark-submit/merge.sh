#!/usr/bin/env bash
# A stream that keeps lake tables equal to TiDB's, on a cluster: YARN, or any other master.
#
#   ticdc-bridge package --dir dist                        the zip and the script, once a release
#   examples/spark-submit/merge.sh                         on YARN, from a machine that has its configuration
#   MASTER='local[2]' LAKE=$PWD/lake BROKERS=localhost:9092 REGISTRY=http://localhost:8081 KAFKA_CONFIG=/dev/null \
#       examples/spark-submit/merge.sh                     on this machine, to try it; JAVA_HOME is a Java 17 or 21
#   (Kubernetes: examples/kubernetes/transcode-executors.yaml)
#
# The Python of driver and executors needs the packages of the extra `spark` of this clone. To YARN this script sends
# them along; make them once, with the Python that the cluster's machines have:
#   python3 -m venv env && env/bin/pip install '.[spark]' venv-pack && env/bin/venv-pack -p env -o dist/env.tar.gz
set -euo pipefail

MASTER=${MASTER:-yarn}
DEPLOY_MODE=${DEPLOY_MODE:-client}          # the driver runs here: Ctrl-C or SIGTERM ends it after its micro-batch
DIST=${DIST:-dist}
BROKERS=${BROKERS:-kafka:9093}
KAFKA_CONFIG=${KAFKA_CONFIG:-examples/spark-submit/kafka.properties}
REGISTRY=${REGISTRY:-http://ticdc-bridge:8081}
TOPICS=${TOPICS:-tidb_shop_.*}
TABLES=${TABLES:-shop.*}
TIME_ZONE=${TIME_ZONE:-UTC}                 # the changefeed's
LAKE=${LAKE:-hdfs:///lake}                  # a place that the driver and all executors see
TRIGGER=${TRIGGER:-30s}                     # now: take what is there, then end

PACKAGES=org.apache.spark:spark-avro_2.13:4.1.1,org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1
PACKAGES+=,org.apache.kafka:kafka-clients:3.9.2,io.delta:delta-spark_4.1_2.13:4.3.1

on_yarn=()
if [ "$MASTER" = yarn ]; then
    on_yarn=(--archives "$DIST/env.tar.gz#env" --conf spark.executorEnv.PYSPARK_PYTHON=./env/bin/python)
fi

exec spark-submit --master "$MASTER" --deploy-mode "$DEPLOY_MODE" --name ticdc-bridge-merge \
    --packages "$PACKAGES" --py-files "$DIST/ticdc_bridge.zip" "${on_yarn[@]}" \
    --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension \
    --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog \
    "$DIST/bridge.py" merge --format avro --registry "$REGISTRY" --time-zone "$TIME_ZONE" \
    --topics "$TOPICS" --tables "$TABLES" --out "delta:$LAKE/{schema}/{table}" \
    --bootstrap-servers "$BROKERS" --kafka-config "$KAFKA_CONFIG" --dead-letter kafka:tidb_dead \
    --stream --trigger "$TRIGGER" --checkpoint "$LAKE/_checkpoints/shop"
