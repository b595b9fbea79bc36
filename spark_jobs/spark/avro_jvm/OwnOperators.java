package ticdcbridge;

import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;

import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Plans Spark's node that observes metrics as CountedRowsExec where these are calls of an object of CountedRows. */
public final class OwnOperators extends SparkStrategy {
    /** Brings the strategy to a session's planner, unless it has it. */
    public OwnOperators(ExperimentalMethods session) {
        Seq all = session.extraStrategies();
        for (int n = 0; n < all.length(); n++) {
            if (all.apply(n) instanceof OwnOperators) {
                return;
            }
        }
        session.extraStrategies_$eq((Seq) all.appended(this));
    }

    public Seq apply(LogicalPlan plan) {
        SparkPlan found = plan instanceof CollectMetrics ? metrics((CollectMetrics) plan) : null;
        return (Seq) (found == null ? (Object) Nil$.MODULE$ : Nil$.MODULE$.prepended(found));
    }

    private SparkPlan metrics(CollectMetrics node) {
        CountedRows rows = called((Expression) node.metrics().head());
        LogicalPlan child = node.child();
        return rows == null ? null : new CountedRowsExec(node.name(), node.metrics(), planLater(child), rows);
    }

    /** The object whose method the innermost first argument of an expression is. */
    private static CountedRows called(Expression metric) {
        Expression at = metric;
        while (!at.children().isEmpty()) {
            at = (Expression) at.children().head();
        }
        Object value = at instanceof Literal ? ((Literal) at).value() : null;
        return value instanceof CountedRows ? (CountedRows) value : null;
    }
}
