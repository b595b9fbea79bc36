package ticdcbridge;

import java.io.Serializable;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** Bytes of Spark's own binary rows, as Python's workers make them (spark_jobs/arrow/binary_rows.py), as rows. */
public final class BinaryRows implements Serializable {
    private static final long serialVersionUID = 1L;

    private final int columns;

    public BinaryRows(int columns) {
        this.columns = columns;
    }

    public InternalRow row(byte[] bytes) {
        if (bytes == null) {
            return null;
        }
        UnsafeRow row = new UnsafeRow(columns);
        row.pointTo(bytes, bytes.length);
        return row;
    }
}
