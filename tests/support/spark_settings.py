"""Settings of Spark sessions that tests start: they live for seconds or minutes, over a few rows."""

# The compiler for long runs would take more of such a JVM's time than it gives back. Without it, HotSpot gives code
# 48 MB, which a session of many tests fills: then it throws out what it compiles again. Spark's and Delta's classes
# take 200 MB of metaspace; at each of some sizes on the way there the whole heap would be collected.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
# Few tasks, none over nothing.
QUICK = {
    "spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2", "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1g", "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.stats.collect": "false",
}  # fmt: skip
# To compile an expression takes longer than to interpret it for a few rows.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
