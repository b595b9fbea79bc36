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

/** Spark's operator that observes metrics, but its one metric counts the rows that RefusedRows leaves out. */
public final class RefusedRowsExec extends CollectMetricsExec {
    private final RefusedRows rows;
    private LongAccumulator count;

    public RefusedRowsExec(String name, Seq metrics, SparkPlan child, RefusedRows rows) {
        super(name, metrics, child);
        this.rows = rows;
    }

    private synchronized LongAccumulator count() {
        if (count == null) {
            LongAccumulator made = new LongAccumulator();
            made.register(sparkContext(), Option.apply(name()), false);
            count = made;
        }
        return count;
    }

    public RDD doExecute() {
        if (output().length() != rows.columns) {
            throw new IllegalStateException("the rows have other columns than were planned");
        }
        resetMetrics();
        RefusedRows.Step step = new RefusedRows.Step(rows, count());
        return child().execute().mapPartitions(step, false, ClassTag$.MODULE$.apply(InternalRow.class));
    }

    public Row collectedMetrics() {
        return new GenericRowWithSchema(new Object[] {count().value()}, metricsSchema());
    }

    public void resetMetrics() {
        count().reset();
    }

    public CollectMetricsExec withNewChildInternal(SparkPlan child) {
        return new RefusedRowsExec(name(), metricExpressions(), child, rows);
    }

    /** What the constructor takes beside the fields that Spark knows. */
    public Seq otherCopyArgs() {
        return (Seq) Nil$.MODULE$.prepended(rows);
    }
}
