package ticdcbridge;

import java.nio.charset.StandardCharsets;

import org.apache.spark.unsafe.Platform;

/**
 * Avro's binary form in a byte array (Avro 1.12 specification, "Binary Encoding"), as schemas/codec/avro.py reads it.
 *
 * A number is taken in its shortest form only. No length is trusted before it is compared with what is there.
 */
final class AvroInput {
    private static final byte[] BEFORE_HEX = "{\"hex\":\"".getBytes(StandardCharsets.US_ASCII);
    static final long NOT_ASCII = 0x8080808080808080L;
    private static final long TENTH = 1844674407370955161L; // of 2^64, without its fraction

    byte[] data;
    int pos, end;

    void begin(byte[] bytes, int from) {
        data = bytes;
        pos = from;
        end = bytes.length;
    }

    void finish() {
        if (pos != end) {
            throw new Refused(Codes.TRAILING);
        }
    }

    /** A zig-zag varint of up to 64 bits. */
    long number() {
        int at = pos;
        if (at < end && data[at] >= 0) { // most are branches and lengths
            pos = at + 1;
            return data[at] >>> 1 ^ -(data[at] & 1);
        }
        return longNumber();
    }

    private long longNumber() {
        byte[] from = data;
        int at = pos, b = -1, shift = 0;
        long number = 0;
        for (; b < 0; shift += 7) {
            if (at >= end) {
                throw Refused.CUT_OFF;
            }
            b = from[at++];
            if (shift == 63 && b != 1) {
                throw Refused.WRONG;
            }
            number |= (long) (b & 127) << shift;
        }
        if (b == 0) {
            throw Refused.WRONG;
        }
        pos = at;
        return number >>> 1 ^ -(number & 1);
    }

    long narrow() {
        long number = number();
        if ((int) number != number) {
            throw Refused.WRONG;
        }
        return number;
    }

    /** The size of bytes that have theirs before them; they end at `pos` then. */
    int span() {
        long size = number();
        if (size < 0) {
            throw Refused.WRONG;
        }
        if (size > end - pos) {
            throw Refused.CUT_OFF;
        }
        pos += (int) size;
        return (int) size;
    }

    /** Little-endian bits, as floats and doubles have them. */
    long little(int size) {
        if (end - pos < size) {
            throw Refused.CUT_OFF;
        }
        long number = 0;
        for (int n = 0; n < size; n++) {
            number |= (long) (data[pos++] & 255) << 8 * n;
        }
        return number;
    }

    void bool() {
        if ((little(1) & 254) != 0) {
            throw Refused.WRONG;
        }
    }

    // ---------------------------------------------------------------------------------------- text
    /** Whether the `size` bytes before `pos` are UTF-8 (Unicode 16, table 3-7). */
    boolean isText(int size) {
        byte[] bytes = data;
        int at = pos - size;
        while (at < pos) {
            if (pos - at >= 8 && (Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET + at) & NOT_ASCII) == 0) {
                at += 8;
                continue;
            }
            int first = bytes[at++] & 255;
            if (first < 0x80) {
                continue;
            }
            int more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
            if (first < 0xC2 || first > 0xF4 || pos - at < more) {
                return false;
            }
            int least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
            int most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
            for (; more > 0; more--, least = 0x80, most = 0xBF) {
                int next = bytes[at++] & 255;
                if (next < least || next > most) {
                    return false;
                }
            }
        }
        return true;
    }

    /** The `size` bytes before `pos` as the plain form has what is no text: {"hex":"00ff"}. */
    byte[] hex(int size) {
        byte[] made = new byte[BEFORE_HEX.length + 2 * size + 2];
        System.arraycopy(BEFORE_HEX, 0, made, 0, BEFORE_HEX.length);
        int at = BEFORE_HEX.length;
        for (int n = pos - size; n < pos; n++) {
            made[at++] = (byte) Character.forDigit(data[n] >> 4 & 15, 16);
            made[at++] = (byte) Character.forDigit(data[n] & 15, 16);
        }
        made[at] = '"';
        made[at + 1] = '}';
        return made;
    }

    /** schemas.model.values.check_decimal: perhaps a sign, 1 to 65 digits, and perhaps a point with 1 to 65 more. */
    boolean isDecimal(int size) {
        int at = pos - size;
        if (size > 0 && data[at] == '-') {
            at++;
        }
        int whole = digitsFrom(at);
        at += whole;
        if (whole < 1 || whole > 65 || at == pos) {
            return whole >= 1 && whole <= 65;
        }
        int fraction = digitsFrom(at + 1);
        return data[at] == '.' && fraction >= 1 && fraction <= 65 && at + 1 + fraction == pos;
    }

    private int digitsFrom(int first) {
        int at = first;
        while (at < pos && data[at] >= '0' && data[at] <= '9') {
            at++;
        }
        return at - first;
    }

    /** BIGINT UNSIGNED as text, without leading zeros → its 64 bits. */
    long unsigned() {
        int size = span(), first = pos - size;
        if (size == 2 && data[first] == '-' && data[first + 1] == '0') {
            return 0; // as the codec has it
        }
        if (size < 1 || size > 20 || digitsFrom(first) != size || (size > 1 && data[first] == '0')) {
            throw Refused.WRONG;
        }
        long number = 0;
        for (int n = first; n < pos; n++) {
            int digit = data[n] - '0';
            if (n - first == 19 && (number < 0 || number > TENTH || (number == TENTH && digit > 5))) {
                throw Refused.WRONG;
            }
            number = number * 10 + digit;
        }
        return number;
    }
}
