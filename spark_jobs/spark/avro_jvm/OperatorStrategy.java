package ticdcbridge;

import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;

import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * Plans Spark's node that observes metrics as RefusedRowsExec where its metric calls an object of RefusedRows, and
 * Spark's mapInArrow of messages as TunedWorkerExec where the function is ours.
 */
public final class OperatorStrategy extends SparkStrategy {
    /** The name of our functions of messages (spark_jobs/spark/transport.py). */
    private static final String MESSAGES = "ticdc_bridge.messages";

    /** Brings the strategy to a session's planner, unless it has it. */
    public OperatorStrategy(ExperimentalMethods session) {
        Seq all = session.extraStrategies();
        for (int n = 0; n < all.length(); n++) {
            if (all.apply(n) instanceof OperatorStrategy) {
                return;
            }
        }
        session.extraStrategies_$eq((Seq) all.appended(this));
    }

    public Seq apply(LogicalPlan plan) {
        SparkPlan found = null;
        if (plan instanceof CollectMetrics) {
            found = refusedRows((CollectMetrics) plan);
        } else if (plan instanceof MapInArrow) {
            found = worker((MapInArrow) plan);
        }
        return (Seq) (found == null ? (Object) Nil$.MODULE$ : Nil$.MODULE$.prepended(found));
    }

    private SparkPlan refusedRows(CollectMetrics node) {
        // The object whose method the innermost first argument of the metric is.
        Expression at = (Expression) node.metrics().head();
        while (!at.children().isEmpty()) {
            at = (Expression) at.children().head();
        }
        Object value = at instanceof Literal ? ((Literal) at).value() : null;
        LogicalPlan child = node.child();
        return value instanceof RefusedRows
                ? new RefusedRowsExec(node.name(), node.metrics(), planLater(child), (RefusedRows) value) : null;
    }

    private SparkPlan worker(MapInArrow node) {
        Expression function = node.functionExpr();
        boolean ours = function instanceof PythonUDF && MESSAGES.equals(((PythonUDF) function).name());
        LogicalPlan child = node.child();
        return ours && !node.isBarrier() && node.profile().isEmpty() && ArrowRowWriter.takes(child.schema())
                ? new TunedWorkerExec(function, node.output(), planLater(child), false, node.profile()) : null;
    }
}
