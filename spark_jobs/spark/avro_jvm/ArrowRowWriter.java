package ticdcbridge;

import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.BitVectorHelper;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.arrow.ArrowFieldWriter;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.Platform;

/**
 * Rows of messages, copied from Spark's binary rows into the buffers of Arrow's vectors.
 *
 * Spark's own writer makes an object of each text and each byte array, and adds up what all vectors hold for each row.
 */
final class ArrowRowWriter extends ArrowWriter {
    private static final int WORDS = 64; // bytes that are copied word by word

    private final StructType type;
    private final int most; // rows of a batch
    private final StructVector struct;
    private final FieldVector[] vectors;
    private final int[] sizes; // of a column's values, 0: each has its own
    private final long[] offsets, data; // addresses
    private final long[] room; // bytes of a column's data
    private final int[] ends; // where the next value of a column with sizes of its own goes
    private UnsafeProjection projection;
    private int count;
    private long bytes; // of the batch's rows

    /** root: with one struct of the type's columns. most: rows of a batch. */
    ArrowRowWriter(VectorSchemaRoot root, StructType type, int most) {
        super(root, new ArrowFieldWriter[0]);
        this.type = type;
        this.most = most;
        int columns = type.length();
        vectors = new FieldVector[columns];
        sizes = new int[columns];
        offsets = new long[columns];
        data = new long[columns];
        room = new long[columns];
        ends = new int[columns];
        struct = (StructVector) root.getFieldVectors().get(0);
        struct.clear();
        struct.setInitialCapacity(most + 1);
        struct.allocateNew();
        for (int n = 0; n < columns; n++) {
            vectors[n] = (FieldVector) struct.getChildByOrdinal(n);
            sizes[n] = size(type.fields()[n].dataType());
            data[n] = vectors[n].getDataBuffer().memoryAddress();
            room[n] = vectors[n].getDataBuffer().capacity();
            if (sizes[n] == 0) {
                offsets[n] = vectors[n].getOffsetBuffer().memoryAddress();
                Platform.putInt(null, offsets[n], 0);
            }
        }
        reset();
    }

    /** Whether all columns can be copied so. */
    static boolean takes(StructType type) {
        for (int n = 0; n < type.length(); n++) {
            if (size(type.fields()[n].dataType()) < 0) {
                return false;
            }
        }
        return true;
    }

    /** The bytes of a value that Spark and Arrow have alike, 0: each value has its own number; -1 for other types. */
    private static int size(DataType type) {
        if (type instanceof IntegerType) {
            return 4;
        }
        if (type instanceof LongType || type instanceof TimestampType) {
            return 8;
        }
        return type instanceof BinaryType || type instanceof StringType ? 0 : -1;
    }

    public void write(InternalRow row) {
        if (!(row instanceof UnsafeRow)) {
            projection = projection == null ? UnsafeProjection.create(type) : projection;
            row = projection.apply(row);
        }
        UnsafeRow cells = (UnsafeRow) row;
        for (int n = 0; n < sizes.length; n++) {
            if (cells.isNullAt(n)) {
                BitVectorHelper.unsetBit(vectors[n].getValidityBuffer(), count);
            } else if (sizes[n] == 8) {
                Platform.putLong(null, data[n] + 8L * count, cells.getLong(n));
            } else if (sizes[n] == 4) {
                Platform.putInt(null, data[n] + 4L * count, cells.getInt(n));
            } else {
                long position = cells.getLong(n); // where it is in the row, and its size
                append(n, cells.getBaseObject(), cells.getBaseOffset() + (position >>> 32), (int) position);
            }
            if (sizes[n] == 0) {
                Platform.putInt(null, offsets[n] + 4L * count + 4, ends[n]);
            }
        }
        count++;
        bytes += cells.getSizeInBytes();
    }

    private void append(int n, Object base, long from, int size) {
        long end = ends[n];
        if (end + size + 8 > room[n]) {
            ((BaseVariableWidthVector) vectors[n]).reallocDataBuffer(Math.max(2 * room[n], end + size + 8));
            data[n] = vectors[n].getDataBuffer().memoryAddress();
            room[n] = vectors[n].getDataBuffer().capacity();
        }
        if (size <= WORDS) { // a value fills whole words of its row, and the next one here overwrites what is too much
            for (int k = 0; k < size; k += 8) {
                Platform.putLong(null, data[n] + end + k, Platform.getLong(base, from + k));
            }
        } else {
            Platform.copyMemory(base, from, null, data[n] + end, size);
        }
        ends[n] += size;
    }

    public long sizeInBytes() {
        return bytes;
    }

    public void finish() {
        for (int n = 0; n < sizes.length; n++) {
            if (sizes[n] == 0) {
                ((BaseVariableWidthVector) vectors[n]).setLastSet(count - 1);
            }
        }
        root().setRowCount(count);
    }

    /** Begins a batch. */
    public void reset() {
        count = 0;
        bytes = 0;
        struct.getValidityBuffer().setOne(0, (most + 7) / 8);
        for (int n = 0; n < sizes.length; n++) {
            ends[n] = 0;
            vectors[n].getValidityBuffer().setOne(0, (most + 7) / 8);
        }
    }
}
