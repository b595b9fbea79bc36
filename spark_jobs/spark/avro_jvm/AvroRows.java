package ticdcbridge;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.Serializable;
import java.util.Arrays;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.unsafe.Platform;

/**
 * TiCDC's Avro messages of one table, read straight into Spark's rows.
 *
 * Each schema id is a program, which spark_jobs/spark/avro_jvm/programs.py makes: a step for each field, in the record's order.
 * A record is held to what schemas/formats/avro/decoder.py and avro_record.py ask of it; text that is no UTF-8 becomes what the
 * plain form has for it.
 *
 * Janino compiles this, as it compiles what Spark makes of queries: no lambdas, no generics without their types.
 */
public final class AvroRows implements Serializable {
    private static final long serialVersionUID = 1L;

    private final byte[] programs;
    private transient Reader reader;

    public AvroRows(byte[] programs) {
        this.programs = programs;
    }

    /**
     * A message → (code, id, op, commit_ts, op_unknown, key, before, after): code is 0, or why it is refused; key is
     * the number of the names of its key's columns, 0 where it has none. It holds until the next call, as do rows that
     * Spark's own expressions give. named: something else than its first bytes says which schema it has.
     */
    public InternalRow read(byte[] key, byte[] value, boolean named) {
        Reader mine = reader;
        if (mine == null || mine.owner != Thread.currentThread()) { // a thread that finds another's makes its own
            mine = new Reader(programs);
            reader = mine;
        }
        return mine.read(key, value, named);
    }

    private static final class Program {
        int flags; // Codes.OF_VALUE and the like
        int key; // the number of its columns' names, 0 where it is no key's
        int[] strange; // as a key: ids of values that lack a column of it
        int[] steps;
        int[] absent; // columns that the record has not, and that get nothing: place and precision
        int[] presetSteps; // those that get something in a value's rows, from `presets`
        byte[] presets;
    }

    private static final class Reader {
        static final byte[] NONE = {}, C = {'c'}, U = {'u'}, D = {'d'};

        final Thread owner = Thread.currentThread();
        final int longest; // bytes of a message
        final int columns;
        final int[] ids; // in order
        final Program[] programs;
        final UnsafeRowWriter top = new UnsafeRowWriter(Codes.FIELDS, 1024);
        final UnsafeRowWriter row, old;
        final int[] lengthy; // columns whose values have a place of their own, and their size there (0: the value's)
        final AvroInput in = new AvroInput(), preset = new AvroInput();

        int op; // its letter, 0 where the record has none, -1 where it has another
        boolean timed; // whether commitTs is there
        boolean wrong; // whether the checksum is no text
        long commitTs;
        long oldAt; // where the old row is, 0 where there is none
        int rowEnd; // where the row ends if an old row comes after it, else 0

        Reader(byte[] packed) {
            try {
                DataInputStream from = new DataInputStream(new ByteArrayInputStream(packed));
                longest = from.readInt();
                columns = from.readInt();
                row = new UnsafeRowWriter(top, columns);
                old = new UnsafeRowWriter(top, columns);
                lengthy = numbers(from);
                ids = numbers(from);
                programs = new Program[ids.length];
                for (int n = 0; n < ids.length; n++) {
                    programs[n] = program(from);
                }
            } catch (IOException e) {
                throw new IllegalArgumentException("the programs are cut short", e);
            }
        }

        private static Program program(DataInputStream from) throws IOException {
            Program made = new Program();
            made.flags = from.readInt();
            made.key = from.readInt();
            made.strange = numbers(from);
            made.steps = numbers(from);
            made.absent = numbers(from);
            made.presetSteps = numbers(from);
            made.presets = new byte[from.readInt()];
            from.readFully(made.presets);
            return made;
        }

        private static int[] numbers(DataInputStream from) throws IOException {
            int[] found = new int[from.readInt()];
            for (int n = 0; n < found.length; n++) {
                found[n] = from.readInt();
            }
            return found;
        }

        // ------------------------------------------------------------------------------------ messages
        InternalRow read(byte[] key, byte[] value, boolean named) {
            op = 0;
            timed = false;
            wrong = false;
            oldAt = 0;
            rowEnd = 0;
            top.reset();
            top.zeroOutNullBytes();
            try {
                if (named) {
                    throw new Refused(Codes.NAMED);
                }
                event(key, value);
            } catch (Refused refused) {
                top.reset();
                top.zeroOutNullBytes();
                top.write(Codes.F_CODE, refused.code);
                for (int n = Codes.F_CODE + 1; n < Codes.FIELDS; n++) {
                    top.setNullAt(n);
                }
            }
            return top.getRow();
        }

        private void event(byte[] key, byte[] value) {
            if (value != null && value.length == 9 && value[0] == 3) { // a delete, with avro-enable-watermark
                commitTs = 0;
                for (int n = 1; n < 9; n++) {
                    commitTs = commitTs << 8 | value[n] & 255;
                }
                timed = true;
                value = null;
            }
            if (key == null && value == null) {
                throw new Refused(Codes.EMPTY);
            }
            Program read = begin(value == null ? key : value);
            int id = idOf(in.data), start = top.cursor();
            row(read, value == null ? NONE : read.presets, row, 0, read.steps.length);
            in.finish();
            long rowAt = place(start, rowEnd == 0 ? top.cursor() : rowEnd);
            Program of = value == null ? read : key == null ? null : key(key);
            // Why a message is refused is said in the codec's order, so the whole record is read first.
            if ((of != null && !isKey(of, value == null, id)) || op < 0 || wrong || (timed && commitTs < 0)) {
                throw Refused.WRONG;
            }
            top.write(Codes.F_KEY, of == null ? 0 : of.key);
            boolean gone = value == null || op == 'd';
            top.write(Codes.F_CODE, 0);
            top.write(Codes.F_ID, id);
            top.write(Codes.F_OP, gone ? D : op == 'u' ? U : C);
            if (timed) {
                top.write(Codes.F_COMMIT_TS, commitTs);
            } else {
                top.setNullAt(Codes.F_COMMIT_TS);
            }
            top.write(Codes.F_UNKNOWN, value != null && op == 0);
            refer(Codes.F_BEFORE, gone ? rowAt : oldAt);
            refer(Codes.F_AFTER, gone ? 0 : rowAt);
        }

        /** Whether a record is a key's: what a value has beside its row would be taken for columns. */
        private static boolean isKey(Program of, boolean alone, int value) {
            if (of.key == 0 || (of.flags & Codes.OF_VALUE) != 0) {
                return false;
            }
            return alone ? (of.flags & Codes.BESIDE) == 0 : Arrays.binarySearch(of.strange, value) < 0;
        }

        /** A value's key, looked at. */
        private Program key(byte[] message) {
            Program read;
            try {
                read = begin(message);
            } catch (Refused refused) {
                throw refused.code == Codes.OTHER_TABLE ? Refused.WRONG : refused; // the value is this table's
            }
            steps(read, 0, read.steps.length, in, null, 0);
            in.finish();
            return read;
        }

        /** Where a row is from the first byte on, and its size, as a field of a row has them. */
        private static long place(int start, int end) {
            return (long) (start - Platform.BYTE_ARRAY_OFFSET) << 32 | (end - start);
        }

        private void refer(int field, long place) {
            if (place == 0) {
                top.setNullAt(field);
            } else {
                top.write(field, place);
            }
        }

        /** The program of a framed message, whose record is read next. */
        private Program begin(byte[] message) {
            if (message.length > longest) {
                throw new Refused(Codes.TOO_LARGE);
            }
            if (message.length == 0 || message[0] != 0) {
                throw new Refused(Codes.NOT_FRAMED);
            }
            if (message.length < 5) {
                throw Refused.CUT_OFF;
            }
            int found = Arrays.binarySearch(ids, idOf(message));
            if (found < 0) {
                throw new Refused(Codes.UNKNOWN_ID);
            }
            Program program = programs[found];
            if ((program.flags & Codes.UNREADABLE) != 0) {
                throw new Refused(program.flags >> Codes.CODE_SHIFT);
            }
            in.begin(message, 5);
            return program;
        }

        private static int idOf(byte[] message) {
            return message[1] << 24 | (message[2] & 255) << 16 | (message[3] & 255) << 8 | message[4] & 255;
        }

        // ------------------------------------------------------------------------------------ records
        /** One row: what the record has not, then the steps from one to another. */
        private void row(Program read, byte[] presets, UnsafeRowWriter out, int from, int to) {
            int start = out.cursor();
            out.resetRowWriter();
            for (int n = 0; n < read.absent.length; n += 2) {
                RowValues.none(read.absent[n], read.absent[n + 1], out);
            }
            preset.begin(presets, 0);
            for (int at = 0; at < read.presetSteps.length; at += Codes.STEP) {
                if (presets.length > 0) {
                    value(read.presetSteps, at, preset, out, start);
                } else {
                    RowValues.none(read.presetSteps[at + Codes.POSITION], read.presetSteps[at + Codes.PRECISION], out);
                }
            }
            steps(read, from, to, in, out, start);
            if ((read.flags & Codes.SHUFFLED) != 0) {
                order(out, start, out == row && rowEnd != 0 ? rowEnd : top.cursor());
            }
        }

        /** Values of changing length in the order of their columns: Spark compares rows by their bytes. */
        private void order(UnsafeRowWriter out, int start, int end) {
            int first = (int) out.getFieldOffset(0) + 8 * columns;
            byte[] buffer = out.getBuffer();
            int base = Platform.BYTE_ARRAY_OFFSET, at = first;
            byte[] was = Arrays.copyOfRange(buffer, first - base, end - base);
            for (int n = 0; n < lengthy.length; n += 2) {
                int place = lengthy[n], size = lengthy[n + 1];
                if (size == 0 && out.isNullAt(place)) {
                    continue;
                }
                long word = Platform.getLong(buffer, out.getFieldOffset(place));
                size = size == 0 ? (int) word + 7 & ~7 : size;
                int from = start + (int) (word >>> 32) - first;
                System.arraycopy(was, from, buffer, at - base, size);
                Platform.putLong(buffer, out.getFieldOffset(place), (long) (at - start) << 32 | word & 0xFFFFFFFFL);
                at += size;
            }
        }

        /** out: null where the values are only looked at. start: the row's first byte in out's buffer. */
        private void steps(Program read, int from, int to, AvroInput in, UnsafeRowWriter out, int start) {
            int[] steps = read.steps;
            for (int at = from; at < to; at += Codes.STEP) {
                int branch = steps[at + Codes.BRANCH];
                if (branch >= 0) {
                    long taken = in.number();
                    if (taken == branch) {
                        if (out != null && steps[at + Codes.POSITION] >= 0) {
                            RowValues.none(steps[at + Codes.POSITION], steps[at + Codes.PRECISION], out);
                        }
                        at += steps[at] == Steps.BEFORE ? steps[at + Codes.FIRST] : 0;
                        continue;
                    }
                    if (taken != 1 - branch) {
                        throw Refused.WRONG;
                    }
                }
                if (steps[at] < Steps.OP) {
                    value(steps, at, in, out, start);
                } else if (steps[at] == Steps.BEFORE) {
                    int inner = steps[at + Codes.FIRST];
                    rowEnd = top.cursor();
                    row(read, read.presets, old, at + Codes.STEP, at + Codes.STEP + inner);
                    oldAt = place(rowEnd, top.cursor());
                    at += inner;
                } else {
                    extension(steps[at], in);
                }
            }
        }

        /** What an event has beside its values, and what is passed over. */
        private void extension(int code, AvroInput in) {
            switch (code) {
                case Steps.OP:
                    op = in.span() == 1 ? (int) in.data[in.pos - 1] : 0;
                    op = op == 'c' || op == 'u' || op == 'd' ? op : -1;
                    return;
                case Steps.COMMIT_TS:
                    commitTs = in.number();
                    timed = true;
                    return;
                case Steps.PASS_TEXT:
                    wrong = !in.isText(in.span());
                    return;
                case Steps.PASS_BYTES:
                    in.span();
                    return;
                case Steps.PASS_LONG:
                    in.number();
                    return;
                case Steps.PASS_INT:
                    in.narrow();
                    return;
                case Steps.PASS_BOOLEAN:
                    in.bool();
                    return;
                default:
                    in.little(code == Steps.PASS_FOUR ? 4 : 8);
            }
        }

        private static void value(int[] steps, int at, AvroInput in, UnsafeRowWriter out, int start) {
            int code = steps[at], place = out == null ? -1 : steps[at + Codes.POSITION];
            switch (code) {
                case Steps.INT:
                case Steps.INT_UNSIGNED:
                case Steps.LONG:
                case Steps.LONG_UNSIGNED:
                case Steps.TEXT_UNSIGNED:
                    boolean narrow = code == Steps.INT || code == Steps.INT_UNSIGNED;
                    long number = code == Steps.TEXT_UNSIGNED ? in.unsigned() : narrow ? in.narrow() : in.number();
                    int bits = steps[at + Codes.SECOND]; // of a number without sign, or YEAR; 0: not checked
                    boolean year = number == 0 || (number >= 1901 && number <= 2155);
                    if ((bits > 0 && number >> bits != 0) || (bits == Steps.YEAR && !year)) {
                        throw Refused.WRONG;
                    }
                    if (place >= 0) {
                        RowValues.whole(number, steps[at + Codes.FIRST] == 1, steps, at, place, out, start);
                    }
                    return;
                case Steps.FLOAT:
                    RowValues.real(Float.intBitsToFloat((int) in.little(4)), steps[at + Codes.FORM], place, out);
                    return;
                case Steps.DOUBLE:
                    double real = Double.longBitsToDouble(in.little(8));
                    // A FLOAT that comes as a double is the float that its text says.
                    real = steps[at + Codes.FIRST] == 1 ? (double) (float) real : real;
                    RowValues.real(real, steps[at + Codes.FORM], place, out);
                    return;
                case Steps.DECIMAL_BYTES:
                    RowValues.decimal(in, in.span(), steps, at, place, out, start);
                    return;
                default:
                    bytes(code, steps, at, in, place, out, start);
            }
        }

        private static void bytes(
                int code, int[] steps, int at, AvroInput in, int place, UnsafeRowWriter out, int start) {
            int size = in.span(), first = in.pos - size;
            if (code == Steps.DECIMAL_TEXT && !in.isDecimal(size)) {
                throw Refused.WRONG;
            }
            // BITS: so many bytes, of which the first has a value below the second number
            if (code == Steps.BITS
                    && (size != steps[at + Codes.FIRST] || (in.data[first] & 255) >= steps[at + Codes.SECOND])) {
                throw Refused.WRONG;
            }
            if (place < 0) {
                return; // text that is none is no reason to refuse a message
            }
            int before = out.cursor();
            if (RowValues.bytes(in.data, first, size, place, out, start) && code == Steps.TEXT && !in.isText(size)) {
                out.increaseCursor(before - out.cursor());
                out.write(place, in.hex(size));
            }
        }
    }
}
