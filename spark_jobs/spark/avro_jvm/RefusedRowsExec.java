package ticdcbridge;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.CollectMetricsExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.util.LongAccumulator;

import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** Spark's operator that observes a metric, but what it counts are the rows that RefusedRows leaves out. */
public final class RefusedRowsExec extends CollectMetricsExec {
    private final RefusedRows of;
    private LongAccumulator others;

    public RefusedRowsExec(String name, Seq metrics, SparkPlan child, RefusedRows of) {
        super(name, metrics, child);
        this.of = of;
    }

    private synchronized LongAccumulator others() {
        if (others == null) {
            others = new LongAccumulator();
            others.register(sparkContext(), Option.apply(name()), false);
        }
        return others;
    }

    public RDD doExecute() {
        if (output().length() != of.width()) {
            throw new IllegalStateException("the plan has other columns than the reader gives");
        }
        LongAccumulator counter = others();
        counter.reset();
        return child().execute().mapPartitions(of.answers(counter), false, ClassTag$.MODULE$.apply(InternalRow.class));
    }

    public Row collectedMetrics() {
        return new GenericRowWithSchema(new Object[] {others().value()}, metricsSchema());
    }

    public void resetMetrics() {
        others().reset();
    }

    public CollectMetricsExec withNewChildInternal(SparkPlan child) {
        return new RefusedRowsExec(name(), metricExpressions(), child, of);
    }

    /** What the constructor takes beside the fields that Spark knows. */
    public Seq otherCopyArgs() {
        return (Seq) Nil$.MODULE$.prepended(of);
    }
}
