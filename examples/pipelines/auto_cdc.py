"""The current rows by an AUTO CDC flow, over the changelog of transformations/orders.py.

The target's connector must take row-level MERGE. None that is published for Spark 4.2 does yet: Delta 4.4.0 ends with
AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE, Iceberg 1.12.0 has no runtime for 4.2. A test runs this flow on a catalog of
Spark's own tests. With a catalog `lake` that takes it, add this file to the libraries of spark-pipeline.yml.

Spark adds a column `__spark_autocdc_metadata`, and keeps deleted keys in a table beside the target. What
`ticdc-bridge merge` does more is in docs/columns.md.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.temporary_view
def sequenced_changes() -> DataFrame:
    return spark.readStream.table("order_changes").selectExpr(
        "op", "commit_ts", "CAST(row['id'] AS DECIMAL(20,0)) AS id", "CAST(row['price'] AS DECIMAL(12,2)) AS price"
    )  # your columns


dp.create_streaming_table("lake.shop.orders")
dp.create_auto_cdc_flow(
    target="lake.shop.orders",
    source="sequenced_changes",
    keys=["id"],
    sequence_by="commit_ts",
    apply_as_deletes="op = 'd'",
    except_column_list=["op"],
    stored_as_scd_type=1,
)
