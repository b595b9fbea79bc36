package ticdcbridge;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Arrays;

import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.Platform;

/**
 * Numbers as a column of one of Spark's rows has them, exactly; refused where the column does not hold them.
 *
 * A step tells how a number is written: FORM, and for decimals their own precision and scale (FIRST, SECOND), then the
 * column's. place: the column; negative where the value is only looked at. start: the row's first byte.
 */
final class RowValues {
    private static final int BYTES = Platform.BYTE_ARRAY_OFFSET;
    private static final double BITS = 3.3219; // of a digit, a little less
    private static final BigInteger TWO_64 = BigInteger.ONE.shiftLeft(64);
    private static final long[] TENS = new long[Codes.COMPACT + 1];

    static {
        long power = 1;
        for (int n = 0; n < TENS.length; n++) {
            TENS[n] = power;
            power *= 10;
        }
    }

    private RowValues() {}

    /** NULL in a column; precision: of a decimal, which keeps its place where it is long. */
    static void none(int place, int precision, UnsafeRowWriter out) {
        if (precision > Codes.COMPACT) {
            out.write(place, (Decimal) null, precision, 0);
        } else {
            out.setNullAt(place);
        }
    }

    /** unsigned: a negative number stands for one from 2^63 on. */
    static void whole(long number, boolean unsigned, int[] step, int at, int place, UnsafeRowWriter out, int start) {
        switch (step[at + Codes.FORM]) {
            case Codes.LONG:
                out.write(place, number);
                return;
            case Codes.INT:
                if ((int) number != number) {
                    throw Refused.WRONG;
                }
                out.write(place, (int) number);
                return;
            case Codes.SHORT:
                if ((short) number != number) {
                    throw Refused.WRONG;
                }
                out.write(place, (short) number);
                return;
            default:
                boolean large = unsigned && number < 0;
                if (step[at + Codes.PRECISION] > Codes.COMPACT && step[at + Codes.SCALE] == 0) {
                    wide(number, large, place, out, start);
                } else {
                    BigInteger value = BigInteger.valueOf(number);
                    scaled(new BigDecimal(large ? value.add(TWO_64) : value), step, at, place, out);
                }
        }
    }

    /** Bytes of a column; gives whether any is not ASCII's. */
    static boolean bytes(byte[] from, int first, int size, int place, UnsafeRowWriter out, int start) {
        int to = room(out, size + 7 & ~7), few = size < 8 ? size : 0;
        byte[] buffer = out.getBuffer();
        long every = 0;
        for (int at = 0; at < size - few; at += 8) {
            at = Math.min(at, size - 8); // the last eight may be in part those before
            long word = Platform.getLong(from, BYTES + first + at);
            Platform.putLong(buffer, to + at, word);
            every |= word;
        }
        int rest = 0;
        for (int at = 0; at < few; at++) {
            buffer[to - BYTES + at] = from[first + at];
            rest |= from[first + at];
        }
        out.write(place, (long) (to - start) << 32 | size);
        return (every & AvroInput.NOT_ASCII) != 0 || rest < 0;
    }

    static void real(double number, int form, int place, UnsafeRowWriter out) {
        if (Double.isNaN(number) || Double.isInfinite(number)) {
            throw Refused.WRONG;
        }
        if (place < 0) {
            return;
        }
        if (form == Codes.DOUBLE) {
            out.write(place, number);
        } else if ((float) number == number) {
            out.write(place, (float) number);
        } else {
            throw Refused.WRONG;
        }
    }

    /** DECIMAL as the two's complement of its digits: the `size` bytes before the input's position. */
    static void decimal(AvroInput in, int size, int[] step, int at, int place, UnsafeRowWriter out, int start) {
        byte[] data = in.data;
        int pos = in.pos, first = pos - size, digits = step[at + Codes.FIRST];
        if (size < 1 || size > 32) {
            throw Refused.WRONG;
        }
        while (pos - first > 1 && data[first] == data[first + 1] >> 7) {
            first++; // a sign that the next byte has too
        }
        boolean asIs = step[at + Codes.SECOND] == step[at + Codes.SCALE];
        if (pos - first <= 8 && (asIs || place < 0)) {
            long number = data[first];
            for (int n = first + 1; n < pos; n++) {
                number = number << 8 | data[n] & 255;
            }
            if (digits <= Codes.COMPACT && (number >= TENS[digits] || number <= -TENS[digits])) {
                throw Refused.WRONG;
            }
            if (place >= 0 && step[at + Codes.PRECISION] <= Codes.COMPACT) {
                out.write(place, number);
            } else if (place >= 0) {
                wide(number, false, place, out, start);
            }
            return;
        }
        boolean fits = 8 * (pos - first) - 1 <= (int) (digits * BITS); // so few bits hold no more digits
        BigInteger number = fits && asIs ? null : new BigInteger(Arrays.copyOfRange(data, first, pos));
        if (!fits && number.abs().compareTo(BigInteger.TEN.pow(digits)) >= 0) {
            throw Refused.WRONG;
        }
        if (place >= 0 && asIs) {
            int to = room(out, 16); // it has 38 digits at most, which are 16 bytes
            System.arraycopy(data, first, out.getBuffer(), to - BYTES, pos - first);
            out.write(place, (long) (to - start) << 32 | pos - first);
        } else if (place >= 0) {
            scaled(new BigDecimal(number, step[at + Codes.SECOND]), step, at, place, out);
        }
    }

    /** A number of 64 bits as a row has a decimal of more than 18 digits: the shortest two's complement. */
    private static void wide(long number, boolean large, int place, UnsafeRowWriter out, int start) {
        int size = large ? 9 : (72 - Long.numberOfLeadingZeros(number < 0 ? ~number : number)) / 8;
        int at = room(out, 16);
        byte[] buffer = out.getBuffer();
        for (int n = size - 1, shift = 0; n >= 0 && shift < 64; n--, shift += 8) {
            buffer[at - BYTES + n] = (byte) (number >> shift);
        }
        out.write(place, (long) (at - start) << 32 | size);
    }

    /** Where a value of `size` bytes, a multiple of 8, begins; its last 16 are empty. */
    private static int room(UnsafeRowWriter out, int size) {
        out.grow(size);
        int at = out.cursor();
        for (int n = Math.max(size - 16, 0); n < size; n += 8) {
            Platform.putLong(out.getBuffer(), at + n, 0L);
        }
        out.increaseCursor(size);
        return at;
    }

    private static void scaled(BigDecimal value, int[] step, int at, int place, UnsafeRowWriter out) {
        int precision = step[at + Codes.PRECISION], scale = step[at + Codes.SCALE];
        BigDecimal exact = value.setScale(scale); // no version that would lose digits has such a step
        if (exact.precision() > precision) {
            throw Refused.WRONG;
        }
        out.write(place, Decimal.apply(exact, precision, scale), precision, scale);
    }
}
