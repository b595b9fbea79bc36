package ticdcbridge;

import java.io.Serializable;
import java.util.Collections;

import org.apache.spark.TaskContext;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInArrowExec;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

import scala.Option;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/** Spark's operator for mapInArrow, but a TunedWorkerRunner brings a partition's rows to Python. */
public final class TunedWorkerExec extends MapInArrowExec {
    public TunedWorkerExec(Expression function, Seq output, SparkPlan child, boolean barrier, Option profile) {
        super(function, output, child, barrier, profile);
    }

    public RDD doExecute() {
        if (conf().arrowUseLargeVarTypes()) { // a batch's bytes are bounded, so there is nothing that needs them
            return super.doExecute();
        }
        Step step = new Step(this, conf());
        return child().execute().mapPartitions(step, false, ClassTag$.MODULE$.apply(InternalRow.class));
    }

    public MapInArrowExec withNewChildInternal(SparkPlan child) {
        return new TunedWorkerExec(func(), output(), child, isBarrier(), profile());
    }

    static Seq list(Object only) {
        return PythonUtils.toSeq(Collections.singletonList(only));
    }

    /** What is done with each partition, as Spark's MapInBatchEvaluatorFactory does it. */
    static final class Step extends AbstractFunction1 implements Serializable {
        private static final long serialVersionUID = 1L;
        private final Seq functions, output;
        private final int kind;
        private final StructType input;
        private final String zone;
        private final Map settings, metrics;
        private final Option artifacts, session, profiler;

        Step(TunedWorkerExec of, SQLConf conf) {
            PythonUDF function = (PythonUDF) of.func();
            ChainedPythonFunctions chain = new ChainedPythonFunctions(list(function.func()));
            functions = list(new Tuple2(chain, Long.valueOf(function.resultId().id())));
            output = of.output();
            kind = of.pythonEvalType();
            input = of.child().schema();
            zone = conf.sessionLocalTimeZone();
            settings = ArrowPythonRunner.getPythonRunnerConfMap(conf);
            metrics = of.pythonMetrics();
            artifacts = of.org$apache$spark$sql$execution$python$MapInBatchExec$$jobArtifactUUID();
            session = of.org$apache$spark$sql$execution$python$MapInBatchExec$$sessionUUID();
            profiler = conf.pythonUDFProfiler();
        }

        public Object apply(Object rows) {
            TunedWorkerRunner runner = new TunedWorkerRunner(
                    functions, kind, input, zone, settings, metrics, artifacts, session, profiler);
            TaskContext context = TaskContext.get();
            context.addTaskCompletionListener(runner);
            Iterator batches = runner.compute(list(rows).iterator(), context.partitionId(), context);
            return new Rows(batches, output);
        }
    }

    /** The rows of a worker's batches. A row holds until the next is asked for. */
    private static final class Rows extends AbstractIterator {
        private final Iterator batches;
        private final int columns;
        private final UnsafeProjection projection;
        private java.util.Iterator rows = Collections.emptyIterator();

        Rows(Iterator batches, Seq output) {
            this.batches = batches;
            columns = output.length();
            projection = UnsafeProjection.create(output, output);
        }

        public boolean hasNext() {
            while (!rows.hasNext()) {
                if (!batches.hasNext()) {
                    return false;
                }
                ColumnarBatch batch = (ColumnarBatch) batches.next();
                ColumnVector[] vectors = new ColumnVector[columns];
                for (int n = 0; n < columns; n++) {
                    vectors[n] = batch.column(0).getChild(n);
                }
                rows = new ColumnarBatch(vectors, batch.numRows()).rowIterator();
            }
            return true;
        }

        public Object next() {
            hasNext();
            return projection.apply((InternalRow) rows.next());
        }
    }
}
