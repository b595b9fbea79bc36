package ticdcbridge;

import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.Platform;

/**
 * Rows of messages, copied from Spark's binary rows into the buffers of Arrow's vectors.
 *
 * Spark's own writer makes an object of each text and each byte array, and adds up what all vectors hold for each row.
 */
final class ArrowCells {
    private static final int WORDS = 64; // bytes that are copied word by word

    private final VectorSchemaRoot root;
    private final int most; // rows of a batch
    private final FieldVector[] vectors;
    private final int[] sizes; // of a column's values, 0: each has its own
    private final long[] validity, offsets, data; // addresses
    private final int[] ends; // where the next value of a column with sizes of its own goes
    private final long[] room; // bytes of its data

    ArrowCells(VectorSchemaRoot root, int[] sizes, int most) {
        this.root = root;
        this.sizes = sizes;
        this.most = most;
        int columns = sizes.length;
        vectors = new FieldVector[columns];
        validity = new long[columns];
        offsets = new long[columns];
        data = new long[columns];
        ends = new int[columns];
        room = new long[columns];
        StructVector all = (StructVector) root.getFieldVectors().get(0);
        all.clear();
        all.setInitialCapacity(most + 1);
        all.allocateNew();
        for (int n = 0; n < columns; n++) {
            vectors[n] = (FieldVector) all.getChildByOrdinal(n);
            validity[n] = vectors[n].getValidityBuffer().memoryAddress();
            data[n] = vectors[n].getDataBuffer().memoryAddress();
            room[n] = vectors[n].getDataBuffer().capacity();
            if (sizes[n] == 0) {
                offsets[n] = vectors[n].getOffsetBuffer().memoryAddress();
                Platform.putInt(null, offsets[n], 0);
            }
        }
        fill(all.getValidityBuffer());
        reset();
    }

    /** The bytes of each column's values; null where there is a column that is not copied so. */
    static int[] sizes(StructType rows) {
        StructField[] fields = rows.fields();
        int[] found = new int[fields.length];
        for (int n = 0; n < found.length; n++) {
            found[n] = size(fields[n].dataType());
            if (found[n] < 0) {
                return null;
            }
        }
        return found;
    }

    /** The bytes of a value that Spark and Arrow have alike, 0: each value has its own number; -1 for other types. */
    static int size(DataType type) {
        if (type instanceof IntegerType) {
            return 4;
        }
        if (type instanceof LongType || type instanceof TimestampType) {
            return 8;
        }
        return type instanceof BinaryType || type instanceof StringType ? 0 : -1;
    }

    /** Begins a batch. */
    void reset() {
        for (int n = 0; n < sizes.length; n++) {
            ends[n] = 0;
            fill(vectors[n].getValidityBuffer());
        }
    }

    private void fill(ArrowBuf bits) {
        bits.setOne(0, (most + 7) / 8);
    }

    /** at: how many rows the batch has before this one. */
    void add(UnsafeRow row, int at) {
        for (int n = 0; n < sizes.length; n++) {
            if (row.isNullAt(n)) {
                long place = validity[n] + (at >> 3);
                Platform.putByte(null, place, (byte) (Platform.getByte(null, place) & ~(1 << (at & 7))));
                if (sizes[n] == 0) {
                    Platform.putInt(null, offsets[n] + 4L * at + 4, ends[n]);
                }
            } else if (sizes[n] == 8) {
                Platform.putLong(null, data[n] + 8L * at, row.getLong(n));
            } else if (sizes[n] == 4) {
                Platform.putInt(null, data[n] + 4L * at, row.getInt(n));
            } else {
                long place = row.getLong(n); // where it is in the row, and its size
                append(n, at, row.getBaseObject(), row.getBaseOffset() + (place >>> 32), (int) place);
            }
        }
    }

    private void append(int n, int at, Object base, long from, int size) {
        int end = ends[n];
        if (end + (long) size + 8 > room[n]) {
            BaseVariableWidthVector vector = (BaseVariableWidthVector) vectors[n];
            vector.reallocDataBuffer(Math.max(2 * room[n], end + (long) size + 8));
            data[n] = vector.getDataBuffer().memoryAddress();
            room[n] = vector.getDataBuffer().capacity();
        }
        long to = data[n] + end;
        if (size <= WORDS) { // a value fills whole words of its row, and the next one here overwrites what is too much
            for (int k = 0; k < size; k += 8) {
                Platform.putLong(null, to + k, Platform.getLong(base, from + k));
            }
        } else {
            Platform.copyMemory(base, from, null, to, size);
        }
        ends[n] = end + size;
        Platform.putInt(null, offsets[n] + 4L * at + 4, ends[n]);
    }

    /** The vectors hold a batch of so many rows. */
    void finish(int count) {
        for (int n = 0; n < sizes.length; n++) {
            if (sizes[n] == 0) {
                ((BaseVariableWidthVector) vectors[n]).setLastSet(count - 1);
            }
        }
        root.setRowCount(count);
    }
}
