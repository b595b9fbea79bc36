package ticdcbridge;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.util.LongAccumulator;

import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/** Rows that have a kind are left out and counted by it. */
public final class LeftOutRows extends CountedRows {
    private static final long serialVersionUID = 1L;

    private final Seq kind, columnsOfRows;
    private final String[] kinds;

    /** kind: an expression, alone, of the rows' columns: NULL in a row that stays. kinds: in the metrics' order. */
    public LeftOutRows(Seq kind, Seq columns, String[] kinds) {
        super(columns.length());
        this.kind = kind;
        this.columnsOfRows = columns;
        this.kinds = kinds;
    }

    Iterator rows(Iterator rows, LongAccumulator[] counts) {
        return new Rows(rows, UnsafeProjection.create(kind, columnsOfRows), kinds, counts);
    }

    private static final class Rows extends AbstractIterator {
        final Iterator rows;
        final UnsafeProjection kind;
        final String[] kinds;
        final LongAccumulator[] counts;
        InternalRow next;

        Rows(Iterator rows, UnsafeProjection kind, String[] kinds, LongAccumulator[] counts) {
            this.rows = rows;
            this.kind = kind;
            this.kinds = kinds;
            this.counts = counts;
        }

        public boolean hasNext() {
            while (next == null && rows.hasNext()) {
                InternalRow row = (InternalRow) rows.next();
                InternalRow found = kind.apply(row);
                if (found.isNullAt(0)) {
                    next = row;
                } else {
                    count(found.getUTF8String(0).toString());
                }
            }
            return next != null;
        }

        private void count(String found) {
            for (int n = 0; n < kinds.length; n++) {
                if (kinds[n].equals(found)) {
                    counts[n].add(1L);
                    return;
                }
            }
            throw new IllegalStateException("no metric counts rows of the kind " + found);
        }

        public Object next() {
            InternalRow row = next;
            next = null;
            return row;
        }
    }
}
