package ticdcbridge;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * Batches of a Python worker as Spark's binary rows, a row at a time. A row holds until the next is asked for.
 *
 * A batch with cells that ArrowStruct does not copy goes through Spark's own projection, which gives the same bytes.
 */
final class ArrowRows extends AbstractIterator {
    private final Iterator batches;
    private final Seq output;
    private final ArrowStruct struct;
    private UnsafeProjection projection;
    private java.util.Iterator rest; // rows of a batch that goes Spark's way
    private int at, count;

    ArrowRows(Iterator batches, StructType type, Seq output) {
        this.batches = batches;
        this.output = output;
        this.struct = new ArrowStruct(type, null);
    }

    public boolean hasNext() {
        while (rest == null ? at == count : !rest.hasNext()) {
            if (!batches.hasNext()) {
                return false;
            }
            begin((ColumnarBatch) batches.next());
        }
        return true;
    }

    private void begin(ColumnarBatch batch) {
        ArrowColumnVector all = (ArrowColumnVector) batch.column(0);
        at = 0;
        count = batch.numRows();
        rest = null;
        if (!struct.begin(all, count)) {
            ColumnVector[] columns = new ColumnVector[output.length()];
            for (int n = 0; n < columns.length; n++) {
                columns[n] = all.getChild(n);
            }
            rest = new ColumnarBatch(columns, count).rowIterator();
            projection = projection == null ? UnsafeProjection.create(output, output) : projection;
        }
    }

    public Object next() {
        if (!hasNext()) {
            throw new java.util.NoSuchElementException();
        }
        return rest == null ? struct.row(at++) : projection.apply((InternalRow) rest.next());
    }
}
