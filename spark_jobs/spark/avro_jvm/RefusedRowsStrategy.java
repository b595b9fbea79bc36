package ticdcbridge;

import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkStrategy;

import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Plans Spark's node that observes metrics as RefusedRowsExec where its metric calls an object of RefusedRows. */
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
        Object found = Nil$.MODULE$;
        if (plan instanceof CollectMetrics) {
            CollectMetrics node = (CollectMetrics) plan;
            RefusedRows rows = rowsOf((Expression) node.metrics().head());
            if (rows != null) {
                LogicalPlan child = node.child();
                found = Nil$.MODULE$.prepended(new RefusedRowsExec(node.name(), node.metrics(), planLater(child), rows));
            }
        }
        return (Seq) found;
    }

    /** The object whose method the innermost first argument of an expression is. */
    private static RefusedRows rowsOf(Expression metric) {
        Expression at = metric;
        while (!at.children().isEmpty()) {
            at = (Expression) at.children().head();
        }
        Object value = at instanceof Literal ? ((Literal) at).value() : null;
        return value instanceof RefusedRows ? (RefusedRows) value : null;
    }
}
