"""The current rows by an AUTO CDC flow, over the changelog of transformations/orders.py.

Not part of the pipeline yet: no target that is published for Spark 4.2 or 4.3 takes such a flow. Tried: Delta 4.4.0 on
Spark 4.2.1 (Spark says AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE), Iceberg 1.12.0 (has no runtime for 4.2 or 4.3). Until
one does, `ticdc-bridge merge` keeps such a table, and follows RENAME, TRUNCATE and changes of type as well.

With a catalog that takes it, add this file to the libraries of spark-pipeline.yml.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.temporary_view
def sequenced_changes() -> DataFrame:
    return spark.readStream.table("order_changes").selectExpr(
        "op", "commit_ts", "CAST(row['id'] AS DECIMAL(20,0)) AS id", "CAST(row['price'] AS DECIMAL(12,2)) AS price"
    )  # your columns


dp.create_streaming_table("orders")
dp.create_auto_cdc_flow(
    target="orders",
    source="sequenced_changes",
    keys=["id"],
    sequence_by="commit_ts",
    apply_as_deletes="op = 'd'",
    except_column_list=["op"],
    stored_as_scd_type=1,
)
