package ticdcbridge;

import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** A struct of Arrow's, copied from the vectors' buffers into a row of Spark's, in the layout of UnsafeRowWriter. */
final class ArrowStruct {
    private static final int SIZED = 0, OTHER = -1, NULL = -2, EMPTY = -3, STRUCT = -4; // above 0: bytes of a value
    private static final UTF8String NO_ELEMENTS = UTF8String.fromBytes(new byte[8]); // of an array: their number

    private final DataType[] types;
    private final UnsafeRowWriter out;
    private final int[] ways; // in which the columns of this batch are copied
    private final ArrowStruct[] inner;
    private final long[] validity, offsets, data; // addresses; validity 0: no value is NULL

    /** outer: of the struct that this one is in, null where it is the row. */
    ArrowStruct(StructType type, UnsafeRowWriter outer) {
        int columns = type.length();
        out = outer == null ? new UnsafeRowWriter(columns, 1024) : new UnsafeRowWriter(outer, columns);
        types = new DataType[columns];
        ways = new int[columns];
        inner = new ArrowStruct[columns];
        validity = new long[columns];
        offsets = new long[columns];
        data = new long[columns];
        for (int n = 0; n < columns; n++) {
            types[n] = type.fields()[n].dataType();
            inner[n] = types[n] instanceof StructType ? new ArrowStruct((StructType) types[n], out) : null;
        }
    }

    /** The vectors of a batch of so many rows. Gives false where there are cells that are not copied so. */
    boolean begin(ArrowColumnVector struct, int count) {
        for (int n = 0; n < types.length; n++) {
            ArrowColumnVector column = struct.getChild(n);
            FieldVector vector = (FieldVector) column.getValueVector();
            int nulls = vector.getNullCount(), way = way(types[n], column, vector, nulls == count);
            if (way == OTHER || way == STRUCT && !inner[n].begin(column, count)) {
                return false;
            }
            ways[n] = way;
            validity[n] = nulls == 0 || way == NULL ? 0 : vector.getValidityBuffer().memoryAddress();
            data[n] = way >= 0 ? vector.getDataBuffer().memoryAddress() : 0;
            offsets[n] = way == SIZED ? vector.getOffsetBuffer().memoryAddress() : 0;
        }
        return true;
    }

    /** How a column's cells are copied. A worker's column of another type than was asked for is for Spark to refuse. */
    private static int way(DataType type, ArrowColumnVector column, FieldVector vector, boolean none) {
        if (type instanceof DecimalType || type instanceof CalendarIntervalType) { // whose NULL may keep its place
            return OTHER;
        }
        if (none) {
            return NULL;
        }
        int size = ArrowRowWriter.size(type);
        if (!DataType$.MODULE$.equalsIgnoreNullability(column.dataType(), type)) {
            return OTHER;
        }
        if (type instanceof StructType) {
            return STRUCT;
        }
        // A vector of variable width has offsets of 4 bytes; a large one is another class.
        if (size == SIZED ? vector instanceof BaseVariableWidthVector : vector instanceof BaseFixedWidthVector) {
            return size;
        }
        boolean empty = type instanceof ArrayType && vector instanceof ListVector
                && ((ListVector) vector).getDataVector().getValueCount() == 0;
        return empty ? EMPTY : OTHER;
    }

    /** The row as a row of its own. It holds until the next. */
    UnsafeRow row(int at) {
        out.reset();
        out.zeroOutNullBytes();
        write(at);
        return out.getRow();
    }

    private void write(int at) {
        for (int n = 0; n < ways.length; n++) {
            int way = ways[n];
            if (way == NULL || isNull(n, at)) {
                out.setNullAt(n);
            } else if (way == 8) {
                out.write(n, Platform.getLong(null, data[n] + 8L * at));
            } else if (way == 4) {
                out.write(n, Platform.getInt(null, data[n] + 4L * at));
            } else if (way == SIZED) {
                long offset = offsets[n] + 4L * at;
                int from = Platform.getInt(null, offset);
                out.write(n, UTF8String.fromAddress(null, data[n] + from, Platform.getInt(null, offset + 4) - from));
            } else if (way == EMPTY) {
                out.write(n, NO_ELEMENTS);
            } else {
                int before = out.cursor();
                inner[n].out.resetRowWriter();
                inner[n].write(at);
                out.setOffsetAndSizeFromPreviousCursor(n, before);
            }
        }
    }

    private boolean isNull(int n, int at) {
        return validity[n] != 0 && (Platform.getByte(null, validity[n] + (at >> 3)) >> (at & 7) & 1) == 0;
    }
}
