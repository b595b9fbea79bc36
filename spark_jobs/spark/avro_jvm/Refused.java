package ticdcbridge;

/** Why a message is refused. It has no stack trace: hostile input may bring one for each row. */
final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1L;

    // The numbers are those of spark_jobs/spark/avro_jvm/programs.py. Registered versions that can't be read have the next ones.
    static final int EMPTY = 1, OTHER_TABLE = 2, NOT_FRAMED = 3, TOO_LARGE = 4, UNKNOWN_ID = 5, CUT = 6, MALFORMED = 7;
    static final int TRAILING = 8, NAMED = 9;

    static final Refused CUT_OFF = new Refused(CUT), WRONG = new Refused(MALFORMED);

    final int code;

    Refused(int code) {
        super(null, null, false, false);
        this.code = code;
    }
}
