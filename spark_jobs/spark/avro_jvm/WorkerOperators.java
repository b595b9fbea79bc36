package ticdcbridge;

import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import org.apache.spark.sql.execution.SparkStrategy;

import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Plans Spark's mapInArrow as TunedWorkerExec where the function is ours. */
public final class WorkerOperators extends SparkStrategy {
    /** With what names of our functions begin (spark_jobs/spark/worker_tuning.py). */
    private static final String MARK = "ticdc_bridge.";

    /** Brings the strategy to a session's planner, unless it has it. */
    public WorkerOperators(ExperimentalMethods session) {
        Seq all = session.extraStrategies();
        for (int n = 0; n < all.length(); n++) {
            if (all.apply(n) instanceof WorkerOperators) {
                return;
            }
        }
        session.extraStrategies_$eq((Seq) all.appended(this));
    }

    public Seq apply(LogicalPlan plan) {
        if (!(plan instanceof MapInArrow)) {
            return (Seq) (Object) Nil$.MODULE$;
        }
        MapInArrow node = (MapInArrow) plan;
        Expression function = node.functionExpr();
        boolean ours = function instanceof PythonUDF && ((PythonUDF) function).name().startsWith(MARK);
        boolean plain = !node.isBarrier() && node.profile().isEmpty();
        return (Seq) (ours && plain ? (Object) Nil$.MODULE$.prepended(new TunedWorkerExec(
                function, node.output(), planLater(node.child()), false, node.profile())) : Nil$.MODULE$);
    }
}
