package ticdcbridge;

/** Why a message is refused: a code of Codes'. It has no stack trace: hostile input may bring one for each row. */
final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1L;

    static final Refused CUT_OFF = new Refused(Codes.CUT), WRONG = new Refused(Codes.MALFORMED);

    final int code;

    Refused(int code) {
        super(null, null, false, false);
        this.code = code;
    }
}
