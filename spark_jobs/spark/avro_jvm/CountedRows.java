package ticdcbridge;

import java.io.Serializable;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.util.LongAccumulator;

import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/**
 * What goes on of a partition's rows: rows of the same columns. What is left out is counted.
 *
 * A plan has it as the object whose method a metric calls; OwnOperators finds it there.
 */
public abstract class CountedRows implements Serializable {
    private static final long serialVersionUID = 1L;

    final int columns;

    CountedRows(int columns) {
        this.columns = columns;
    }

    /** counts: one for each metric. A row holds until the next is asked for. */
    abstract Iterator rows(Iterator rows, LongAccumulator[] counts);

    /** Called in a metric's expression if OwnOperators is not among the session's strategies. */
    public Integer mark(InternalRow row) {
        throw new IllegalStateException(
                "the session's extraStrategies were set after decode() or transcode(): call decode() or transcode() again");
    }

    /** The step of each partition. */
    static final class Step extends AbstractFunction1 implements Serializable {
        private static final long serialVersionUID = 1L;
        final CountedRows of;
        final LongAccumulator[] counts;

        Step(CountedRows of, LongAccumulator[] counts) {
            this.of = of;
            this.counts = counts;
        }

        public Object apply(Object rows) {
            return of.rows((Iterator) rows, counts);
        }
    }
}
