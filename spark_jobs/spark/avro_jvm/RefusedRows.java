package ticdcbridge;

import java.io.Serializable;
import java.util.ArrayDeque;
import java.util.Collections;

import org.apache.spark.PartitionEvaluatorFactory;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;

import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * A partition's rows, of which those that the reader refused go through Python's workers, after the others.
 *
 * Rows come and go as objects, with a last column for Python's answer: NULL in a row that was not refused. A worker is
 * started for the first refused row. When MOST of them wait, or their bytes are many, the rest of the partition goes
 * to Python with them, in Spark's own way, which keeps rows on disk where memory is short.
 */
public final class RefusedRows extends AbstractFunction1 implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final int READ = 1, FIELDS = 8, CODE = 0; // where a row says whether it was refused
    private static final int MOST = 1000, MOST_BYTES = 16 << 20;

    private final PartitionEvaluatorFactory python;
    private final StructType schema;

    /** python: rows of `schema` → the same with the answer. */
    public RefusedRows(PartitionEvaluatorFactory python, StructType schema) {
        this.python = python;
        this.schema = schema;
    }

    /** A row as an object, and back: Spark's expressions tell the two apart by their types alone. */
    public InternalRow row(InternalRow row) {
        return row;
    }

    public Object apply(Object rows) {
        return new Rows((Iterator) rows);
    }

    private final class Rows extends AbstractIterator {
        final Iterator rows;
        final UnsafeProjection projection = UnsafeProjection.create(schema);
        final ArrayDeque refused = new ArrayDeque();
        long bytes;
        Iterator answered; // all rows from here on come from Python
        Object next;

        Rows(Iterator rows) {
            this.rows = rows;
        }

        public boolean hasNext() {
            while (next == null && answered == null) {
                if (refused.size() < MOST && bytes < MOST_BYTES && rows.hasNext()) {
                    InternalRow row = (InternalRow) rows.next();
                    if (row.getStruct(READ, FIELDS).getInt(CODE) == 0) {
                        next = row;
                    } else {
                        refuse(row);
                    }
                } else if (refused.isEmpty()) {
                    return false;
                } else {
                    Seq all = PythonUtils.toSeq(Collections.singletonList(new Rest(this)));
                    answered = python.createEvaluator().eval(TaskContext.getPartitionId(), all);
                }
            }
            return next != null || answered.hasNext();
        }

        private void refuse(InternalRow row) {
            UnsafeRow made = projection.apply(row).copy();
            bytes += made.getSizeInBytes();
            refused.add(made);
        }

        public Object next() {
            Object made = next;
            if (made == null) {
                return answered.next();
            }
            next = null;
            return made;
        }
    }

    /** What goes to Python: the rows that wait, then all others. */
    private static final class Rest extends AbstractIterator {
        final Rows of;

        Rest(Rows of) {
            this.of = of;
        }

        public boolean hasNext() {
            return !of.refused.isEmpty() || of.rows.hasNext();
        }

        public Object next() {
            return of.refused.isEmpty() ? of.projection.apply((InternalRow) of.rows.next()).copy() : of.refused.poll();
        }
    }
}
