"""The changelog of shop.orders and its dead letters, as a declarative pipeline of Spark 4.2 and later.

Both are streaming tables: each run appends what came since the last one. Rows are maps of text by column name, as the
columns were called at that moment, so no DDL changes the tables. The current rows are a query (auto_cdc.py, beside this
folder, says where a flow that keeps them stands):

    SELECT row['id'], row['price'] FROM (
        SELECT *, row_number() OVER (PARTITION BY row['id'] ORDER BY commit_ts DESC, op = 'd') AS n FROM order_changes)
    WHERE n = 1 AND op <> 'd'
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from ticdc_bridge import datasource

spark = SparkSession.active()
datasource.register(spark)


def changes() -> DataFrame:
    """Every message of the topic: changes, DDL, watermarks, errors."""
    return (
        spark.readStream.format("ticdc")
        .option("format", spark.conf.get("spark.ticdc.format"))
        .option("topic", spark.conf.get("spark.ticdc.topic"))
        .option("kafka.bootstrap.servers", spark.conf.get("spark.ticdc.bootstrap_servers"))
        .option("history", spark.conf.get("spark.ticdc.history"))
        .load()
    )


@dp.table
def order_changes() -> DataFrame:
    rows = changes().where("kind = 'row' AND db = 'shop' AND `table` = 'orders'")
    return rows.selectExpr("op", "commit_ts", "commit_time", "coalesce(after, before) AS row", "before", "source")


@dp.table
def unreadable() -> DataFrame:
    return changes().where("kind = 'error'").select("error", "source")
