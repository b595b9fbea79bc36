package ticdcbridge;

import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkStrategy;

import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Plans a node that observes a metric as RefusedRowsExec where the metric is a call of an object of RefusedRows. */
public final class RefusedRowsStrategy extends SparkStrategy {
    /** Brings the strategy to a session's planner, unless it has it. */
    public RefusedRowsStrategy(ExperimentalMethods session) {
        Seq all = session.extraStrategies();
        for (int n = 0; n < all.length(); n++) {
            if (all.apply(n) instanceof RefusedRowsStrategy) {
                return;
            }
        }
        session.extraStrategies_$eq((Seq) all.appended(this));
    }

    public Seq apply(LogicalPlan plan) {
        if (plan instanceof CollectMetrics) {
            CollectMetrics node = (CollectMetrics) plan;
            RefusedRows rows = called((Expression) node.metrics().head());
            if (rows != null) {
                LogicalPlan child = node.child();
                return (Seq) Nil$.MODULE$.prepended(
                        new RefusedRowsExec(node.name(), node.metrics(), planLater(child), rows));
            }
        }
        return (Seq) (Object) Nil$.MODULE$;
    }

    /** The object whose method the innermost first argument of an expression is. */
    private static RefusedRows called(Expression metric) {
        Expression at = metric;
        while (!at.children().isEmpty()) {
            at = (Expression) at.children().head();
        }
        Object value = at instanceof Literal ? ((Literal) at).value() : null;
        return value instanceof RefusedRows ? (RefusedRows) value : null;
    }
}
