package ticdcbridge;

import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeArrayWriter;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeWriter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** A struct of Arrow's, copied from the vectors' buffers into a row of Spark's, in the layout of UnsafeRowWriter. */
final class ArrowStruct {
    private static final int NULL = -1, EMPTY = -2, STRUCT = -3, STRUCTS = -4, OTHER = -5, SIZED = 0; // else: bytes
    private static final UTF8String NO_ELEMENTS = UTF8String.fromBytes(new byte[8]); // of an array: their number

    private final StructField[] fields;
    private final UnsafeRowWriter out;
    private final int[] sizes, ways; // of the type's fields, and as they are in this batch
    private final ArrowStruct[] inner; // of structs, and of lists of them
    private final UnsafeArrayWriter[] arrays;
    private final long[] validity, offsets, data; // addresses; validity 0: no value is NULL

    /** outer: of the struct or list that this one is in, null where it is the row. */
    ArrowStruct(StructType type, UnsafeWriter outer) {
        fields = type.fields();
        int columns = fields.length;
        out = outer == null ? new UnsafeRowWriter(columns, 1024) : new UnsafeRowWriter(outer, columns);
        sizes = new int[columns];
        ways = new int[columns];
        inner = new ArrowStruct[columns];
        arrays = new UnsafeArrayWriter[columns];
        validity = new long[columns];
        offsets = new long[columns];
        data = new long[columns];
        for (int n = 0; n < columns; n++) {
            DataType kind = fields[n].dataType();
            boolean struct = kind instanceof StructType;
            sizes[n] = struct ? STRUCT : ArrowCells.size(kind);
            if (struct) {
                inner[n] = new ArrowStruct((StructType) kind, out);
            } else if (kind instanceof ArrayType && ((ArrayType) kind).elementType() instanceof StructType) {
                arrays[n] = new UnsafeArrayWriter(out, 8); // bytes of where a struct is, and its size
                inner[n] = new ArrowStruct((StructType) ((ArrayType) kind).elementType(), arrays[n]);
            }
        }
    }

    /** The vectors of a batch of so many rows. Gives false where there are cells that are not copied so. */
    boolean begin(ArrowColumnVector struct, int count) {
        for (int n = 0; n < sizes.length; n++) {
            ArrowColumnVector column = struct.getChild(n);
            FieldVector vector = (FieldVector) column.getValueVector();
            int nulls = vector.getNullCount();
            ways[n] = way(n, column, vector, nulls == count);
            if (ways[n] == OTHER || ways[n] == STRUCT && !inner[n].begin(column, count)) {
                return false;
            }
            if (ways[n] == STRUCTS) {
                FieldVector elements = ((ListVector) vector).getDataVector();
                if (!inner[n].begin(new ArrowColumnVector(elements), elements.getValueCount())) {
                    return false;
                }
            }
            validity[n] = nulls == 0 || ways[n] == NULL ? 0 : vector.getValidityBuffer().memoryAddress();
            data[n] = ways[n] >= 0 ? vector.getDataBuffer().memoryAddress() : 0;
            offsets[n] = ways[n] == SIZED || ways[n] == STRUCTS ? vector.getOffsetBuffer().memoryAddress() : 0;
        }
        return true;
    }

    /** How a column's cells are copied. A worker's column of another type than was asked for is for Spark to refuse. */
    private int way(int n, ArrowColumnVector column, FieldVector vector, boolean none) {
        DataType type = fields[n].dataType();
        if (type instanceof DecimalType || type instanceof CalendarIntervalType) { // whose NULL may keep its place
            return OTHER;
        }
        if (none) {
            return NULL;
        }
        if (!DataType$.MODULE$.equalsIgnoreNullability(column.dataType(), type)) {
            return OTHER;
        }
        if (sizes[n] == STRUCT || vector instanceof BaseFixedWidthVector && sizes[n] > 0) {
            return sizes[n];
        }
        if (sizes[n] == SIZED) {
            return vector instanceof BaseVariableWidthVector ? SIZED : OTHER; // whose offsets have 4 bytes
        }
        if (!(type instanceof ArrayType && vector instanceof ListVector)) {
            return OTHER;
        }
        FieldVector elements = ((ListVector) vector).getDataVector();
        return elements.getValueCount() == 0 ? EMPTY
                : arrays[n] != null && elements.getNullCount() == 0 ? STRUCTS : OTHER;
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
                if (way == STRUCT) {
                    inner[n].writeWithin(at);
                } else {
                    writeAll(n, at);
                }
                out.setOffsetAndSizeFromPreviousCursor(n, before);
            }
        }
    }

    private void writeWithin(int at) {
        out.resetRowWriter();
        write(at);
    }

    /** The structs of a list. */
    private void writeAll(int n, int at) {
        int first = Platform.getInt(null, offsets[n] + 4L * at);
        int last = Platform.getInt(null, offsets[n] + 4L * at + 4);
        arrays[n].initialize(last - first);
        for (int k = first; k < last; k++) {
            int before = out.cursor();
            inner[n].writeWithin(k);
            arrays[n].setOffsetAndSizeFromPreviousCursor(k - first, before);
        }
    }

    private boolean isNull(int n, int at) {
        return validity[n] != 0 && (Platform.getByte(null, validity[n] + (at >> 3)) >> (at & 7) & 1) == 0;
    }
}
