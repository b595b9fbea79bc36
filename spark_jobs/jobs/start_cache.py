"""What the first jobs on a machine would make for those after them, made ahead: when an image is built.

Machine code of all kernels (`schemas.columnar.kernels.jit`), the reader's own classes (`spark_jobs.spark.avro_jvm`) and
the folder that Spark gets as Java's, all below the cache folder. Takes about 80 s of CPU.

    python -m ticdc_bridge.spark_jobs.jobs.start_cache
"""

import sys
from importlib.resources import as_file, files
from itertools import product

from ticdc_bridge.schemas import columnar
from ticdc_bridge.schemas.model.errors import SetupError


def compile_kernels() -> bool:
    """Compile the kernels of every format and pair of formats, or load them; whether they are cached now."""
    from ticdc_bridge.schemas.columnar.kernels.jit import IS_CACHED
    from ticdc_bridge.spark_jobs.arrow import warm_up

    if not IS_CACHED:
        return False
    for read, write in product(columnar.READERS, columnar.WRITERS):
        warm_up.warm_transcode(read, write)
    for read in columnar.READERS:
        for warm in (warm_up.warm_changes, warm_up.warm_lines, warm_up.warm_table_rows):
            warm(read)
    return warm_up.warm_dump_texts()


def decode_samples() -> int:
    """Decode the sample messages by Spark as typed rows, which needs the reader's classes. Out: how many rows."""
    from ticdc_bridge.spark_jobs.spark.api import decode
    from ticdc_bridge.spark_jobs.spark.frames import read_files
    from ticdc_bridge.spark_jobs.spark.session import spark_session

    spark = spark_session("samples", master="local[2]")
    try:
        with as_file(files("ticdc_bridge.schemas") / "files") as folder:
            messages = read_files(spark, str(folder / "shop.messages.jsonl"))
            schemas = str(folder / "shop.schemas.jsonl")
            return decode(messages, format="avro", schemas=schemas, table="shop.orders").count()
    finally:
        spark.stop()


def main() -> int:
    """Out: the exit code: 0, 1 where something could not be made, 2 where it can't start."""
    try:
        is_cached, rows = compile_kernels(), decode_samples()
    except SetupError as error:
        print(f"error: {error.detail}", file=sys.stderr)
        return 2
    if not is_cached:
        print("error: kernels are not cached: is numba installed, can BRIDGE_CACHE be written?", file=sys.stderr)
    print(f"start_cache: {rows} rows of the samples decoded", file=sys.stderr)
    return 0 if is_cached and rows else 1


if __name__ == "__main__":
    sys.exit(main())
