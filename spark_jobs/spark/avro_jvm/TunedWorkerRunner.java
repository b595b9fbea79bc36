package ticdcbridge;

import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.channels.Channels;

import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Spark's runner of a Python worker, with another way of a partition's rows into Arrow's batches.
 *
 * Spark bounds a batch's bytes too, but by what all vectors say of themselves before each row.
 */
final class TunedWorkerRunner extends ArrowPythonRunner {
    private static final int MOST = 10000; // rows of a batch, where the session allows more
    private static final long ENOUGH = 64 << 20; // bytes of it, the same

    private final StructType type;
    private final GenericInternalRow one = new GenericInternalRow(1); // the struct in which Python is given rows
    private Iterator rows;
    private int most;
    private ArrowCells cells; // null: Spark's own writer writes the rows
    private UnsafeProjection projection;

    TunedWorkerRunner(Seq functions, int kind, StructType type, String zone, Map settings, Map metrics,
            Option artifacts, Option session, Option profiler) {
        super(functions, kind, new int[][] {{0}}, new StructType().add("struct", type), zone, false, settings, metrics,
                artifacts, session, profiler);
        this.type = type;
    }

    public boolean writeNextBatchToArrowStream(
            VectorSchemaRoot root, ArrowStreamWriter writer, DataOutputStream out, Iterator partitions) {
        if (rows == null) {
            rows = (Iterator) partitions.next();
            int allowed = maxRecordsPerBatch();
            most = allowed < 1 || allowed > MOST ? MOST : allowed;
            int[] sizes = ArrowCells.sizes(type);
            cells = sizes == null ? null : new ArrowCells(root, sizes, most);
        }
        if (!rows.hasNext()) {
            close();
            return false;
        }
        fill();
        int before = out.size();
        send(out);
        ((SQLMetric) pythonMetrics().apply("pythonDataSent")).add((long) (out.size() - before));
        return true;
    }

    private void fill() {
        long bytes = 0, enough = Math.min(maxBytesPerBatch(), ENOUGH);
        int count = 0;
        for (; count < most && bytes < enough && rows.hasNext(); count++) {
            UnsafeRow row = unsafe((InternalRow) rows.next());
            bytes += row.getSizeInBytes();
            if (cells == null) {
                one.update(0, row);
                arrowWriter().write(one);
            } else {
                cells.add(row, count);
            }
        }
        if (cells == null) {
            arrowWriter().finish();
        } else {
            cells.finish(count);
        }
    }

    private void send(DataOutputStream out) {
        ArrowRecordBatch batch = unloader().getRecordBatch();
        try {
            MessageSerializer.serialize(new WriteChannel(Channels.newChannel(out)), batch);
        } catch (IOException e) {
            Platform.throwException(e);
        } finally {
            batch.close();
        }
        if (cells == null) {
            arrowWriter().reset();
        } else {
            cells.reset();
        }
    }

    private UnsafeRow unsafe(InternalRow row) {
        if (row instanceof UnsafeRow) {
            return (UnsafeRow) row;
        }
        if (projection == null) {
            projection = UnsafeProjection.create(type);
        }
        return projection.apply(row);
    }
}
