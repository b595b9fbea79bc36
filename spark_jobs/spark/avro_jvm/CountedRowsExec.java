package ticdcbridge;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema;
import org.apache.spark.sql.execution.CollectMetricsExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.util.LongAccumulator;

import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** Spark's operator that observes metrics, but what it counts are the rows that CountedRows leaves out. */
public final class CountedRowsExec extends CollectMetricsExec {
    private final CountedRows of;
    private LongAccumulator[] counts;

    public CountedRowsExec(String name, Seq metrics, SparkPlan child, CountedRows of) {
        super(name, metrics, child);
        this.of = of;
    }

    private synchronized LongAccumulator[] counts() {
        if (counts == null) {
            LongAccumulator[] made = new LongAccumulator[metricExpressions().length()];
            for (int n = 0; n < made.length; n++) {
                made[n] = new LongAccumulator();
                made[n].register(sparkContext(), Option.apply(name()), false);
            }
            counts = made;
        }
        return counts;
    }

    public RDD doExecute() {
        if (output().length() != of.columns) {
            throw new IllegalStateException("the rows have other columns than were planned");
        }
        resetMetrics();
        CountedRows.Step step = new CountedRows.Step(of, counts());
        return child().execute().mapPartitions(step, false, ClassTag$.MODULE$.apply(InternalRow.class));
    }

    public Row collectedMetrics() {
        LongAccumulator[] all = counts();
        Object[] values = new Object[all.length];
        for (int n = 0; n < all.length; n++) {
            values[n] = all[n].value();
        }
        return new GenericRowWithSchema(values, metricsSchema());
    }

    public void resetMetrics() {
        LongAccumulator[] all = counts();
        for (int n = 0; n < all.length; n++) {
            all[n].reset();
        }
    }

    public CollectMetricsExec withNewChildInternal(SparkPlan child) {
        return new CountedRowsExec(name(), metricExpressions(), child, of);
    }

    /** What the constructor takes beside the fields that Spark knows. */
    public Seq otherCopyArgs() {
        return (Seq) Nil$.MODULE$.prepended(of);
    }
}
