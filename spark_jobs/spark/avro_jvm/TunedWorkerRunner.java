package ticdcbridge;

import java.io.DataOutputStream;

import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.BatchedPythonArrowInput$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;

import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Spark's runner of a Python worker, but ArrowRowWriter makes its batches of a partition's rows. */
final class TunedWorkerRunner extends ArrowPythonRunner implements TaskCompletionListener {
    private static final int MOST = 10000; // rows of a batch, where the session allows more
    private static final long ENOUGH = 64 << 20; // bytes of it, the same

    private final StructType type;
    private Iterator rows;
    private int most;
    private ArrowRowWriter writer;

    TunedWorkerRunner(Seq functions, int kind, StructType type, String zone, Map settings, Map metrics,
            Option artifacts, Option session, Option profiler) {
        super(functions, kind, new int[][] {{0}}, new StructType().add("struct", type), zone, false, settings, metrics,
                artifacts, session, profiler);
        this.type = type;
    }

    public boolean writeNextBatchToArrowStream(
            VectorSchemaRoot root, ArrowStreamWriter stream, DataOutputStream out, Iterator partitions) {
        if (writer == null) {
            rows = (Iterator) partitions.next();
            int allowed = maxRecordsPerBatch();
            most = allowed < 1 || allowed > MOST ? MOST : allowed;
            writer = new ArrowRowWriter(root, type, most);
        }
        if (!rows.hasNext()) {
            close();
            return false;
        }
        int before = out.size();
        long enough = Math.min(maxBytesPerBatch(), ENOUGH);
        BatchedPythonArrowInput$.MODULE$.writeSizedBatch(writer, stream, rows, enough, most, unloader(), out);
        ((SQLMetric) pythonMetrics().apply("pythonDataSent")).add((long) (out.size() - before));
        return true;
    }

    /** Frees the batches' memory however the task ends. Spark's runner does when it has sent all rows, and only then. */
    public void onTaskCompletion(TaskContext context) {
        BufferAllocator allocator = root().getVector(0).getAllocator();
        root().close();
        allocator.close();
    }
}
