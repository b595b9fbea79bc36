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
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.LongAccumulator;

import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Change events of a partition, of which those that the reader refused go through Python's workers, after the others.
 *
 * An event that was not refused goes on as the row that it is. A refused one has no kind; a worker is started for the
 * first. When MOST of them wait, or their bytes are many, the rest of the partition goes to Python with them, in Spark's
 * own way, which keeps rows on disk where memory is short.
 *
 * A plan has it as the object whose method a metric calls; OperatorStrategy finds it there.
 */
public final class RefusedRows implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final int KIND = 0; // the column that says whether a row was refused
    private static final int MOST = 1000, MOST_BYTES = 16 << 20;
    private static final UTF8String OTHER = UTF8String.fromString("other");

    final int columns;
    private final PartitionEvaluatorFactory python;
    private final Seq asked, event;

    /**
     * python: rows → rows with Python's answer as one more column, NULL for what was not refused; asked: their columns;
     * columns: of the event, made of them. An event of the kind OTHER is left out and counted.
     */
    public RefusedRows(PartitionEvaluatorFactory python, Seq asked, Seq columns) {
        this.columns = columns.length();
        this.python = python;
        this.asked = asked;
        this.event = columns;
    }

    /** Called in the metric's expression if OperatorStrategy is not among the session's strategies. */
    public Integer mark(InternalRow row) {
        throw new IllegalStateException(
                "the session's extraStrategies were set after decode(): call decode() again");
    }

    /** What is done with each partition. */
    static final class Step extends AbstractFunction1 implements Serializable {
        private static final long serialVersionUID = 1L;
        private final RefusedRows of;
        private final LongAccumulator others;

        Step(RefusedRows of, LongAccumulator others) {
            this.of = of;
            this.others = others;
        }

        public Object apply(Object rows) {
            return new Rows(of, others, (Iterator) rows);
        }
    }

    private static final class Rows extends AbstractIterator {
        final RefusedRows of;
        final LongAccumulator others;
        final Iterator rows;
        final ArrayDeque refused = new ArrayDeque();
        long bytes;
        Iterator answered; // all rows from here on come from Python
        UnsafeProjection event;
        InternalRow next;

        Rows(RefusedRows of, LongAccumulator others, Iterator rows) {
            this.of = of;
            this.others = others;
            this.rows = rows;
        }

        public boolean hasNext() {
            while (next == null) {
                if (answered != null) {
                    if (!answered.hasNext()) {
                        return false;
                    }
                    InternalRow row = event.apply((InternalRow) answered.next());
                    if (OTHER.equals(row.getUTF8String(KIND))) {
                        others.add(1L);
                    } else {
                        next = row;
                    }
                } else if (refused.size() < MOST && bytes < MOST_BYTES && rows.hasNext()) {
                    InternalRow row = (InternalRow) rows.next();
                    if (row.isNullAt(KIND)) {
                        row = row.copy();
                        bytes += ((UnsafeRow) row).getSizeInBytes();
                        refused.add(row);
                    } else {
                        next = row;
                    }
                } else if (refused.isEmpty()) {
                    return false;
                } else {
                    Seq all = PythonUtils.toSeq(Collections.singletonList(new Rest(this)));
                    answered = of.python.createEvaluator().eval(TaskContext.getPartitionId(), all);
                    event = UnsafeProjection.create(of.event, of.asked);
                }
            }
            return true;
        }

        public Object next() {
            InternalRow row = next;
            next = null;
            return row;
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
            return of.refused.isEmpty() ? ((InternalRow) of.rows.next()).copy() : of.refused.poll();
        }
    }
}
