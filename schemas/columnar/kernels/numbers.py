"""Floats and decimals → the numbers of JSON, for numba: shortest digits that read back to the same float.

Shortest digits: R. Giulietti, "The Schubfach way to render doubles" (2020), with 128-bit powers of ten. Decimal text of
up to 15 digits names one double, and its digits are that double's shortest; longer text is rounded to a double by
the same powers, and left where they can't tell which one it is.
"""

from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.text import TENS, Array, find_digits_end, read_digits

_LOW_POWER, _HIGH_POWER = -292, 324
_U0, _U1, _U2, _U4, _U10, _U32, _U40, _U63, _U100 = (np.uint64(n) for n in (0, 1, 2, 4, 10, 32, 40, 63, 100))
_HIDDEN, _EXACT, _FRACTION, _LOW32 = (np.uint64(n) for n in (1 << 52, 1 << 53, (1 << 52) - 1, (1 << 32) - 1))
_SIGN = np.int64(-(1 << 63))
_MARGIN = np.uint64(64)  # of what is cut off: the power's bits, the product's, digits past 38


def _powers() -> Any:
    """10^e for e from _LOW_POWER to _HIGH_POWER: its upper 128 bits (high, low), rounded up."""
    rows = []
    for e in range(_LOW_POWER, _HIGH_POWER + 1):
        size = (number := 10 ** abs(e)).bit_length()
        upper = -(-number << 128 >> size) if e >= 0 else -(-(1 << 127 + size) // number)
        rows.append((upper >> 64, upper & (1 << 64) - 1))
    return np.array(rows, np.uint64)


_POWERS = _powers()


@jit
def _multiply_high(a: Any, b: Any) -> Any:
    """Upper half of a product of two uint64."""
    low_a, high_a, low_b, high_b = a & _LOW32, a >> _U32, b & _LOW32, b >> _U32
    first = high_a * low_b + (low_a * low_b >> _U32)
    second = low_a * high_b + (first & _LOW32)
    return high_a * high_b + (first >> _U32) + (second >> _U32)


@jit
def _log2(power: int) -> int:
    """floor(log2(10^power))."""
    return (power * 1741647) >> 19


@jit
def _round_to_odd(power: int, factor: Any) -> Any:
    """Upper 64 bits of 10^power's 128 × factor, the last one set where bits of account follow."""
    high, low = _POWERS[power - _LOW_POWER, 0], _POWERS[power - _LOW_POWER, 1]
    middle = high * factor
    top = _multiply_high(high, factor)
    total = middle + _multiply_high(low, factor)
    if total < middle:
        top += _U1
    return top | _U1 if total > _U1 else top


@jit
def find_shortest(c: Any, q: int, closer: bool) -> Any:
    """c × 2^q, a float's → (digits as uint64, power of ten). closer: the float below is nearer than the one above."""
    if 0 <= -q < 53 and not c & ((_U1 << np.uint64(-q)) - _U1):
        return c >> np.uint64(-q), 0
    odd = c & _U1
    k = (q * 1262611 - (524031 if closer else 0)) >> 22
    shift = np.uint64(q + _log2(-k) + 1)
    four = _U4 * c
    low = _round_to_odd(-k, (four - (_U1 if closer else _U2)) << shift) + odd
    value = _round_to_odd(-k, four << shift)
    high = _round_to_odd(-k, (four + _U2) << shift) - odd
    s = value // _U4
    if s >= _U10:
        tenth = s // _U10
        below, above = low <= _U40 * tenth, _U40 * tenth + _U40 <= high
        if below != above:
            return _strip_zeros(tenth + (_U1 if above else _U0), k + 1)
    below, above = low <= _U4 * s, _U4 * s + _U4 <= high
    if below != above:
        return _strip_zeros(s + (_U1 if above else _U0), k)
    middle = _U4 * s + _U2
    up = value > middle or (value == middle and s & _U1)
    return _strip_zeros(s + (_U1 if up else _U0), k)


@jit
def _strip_zeros(digits: Any, power: int) -> Any:
    """Without zeros at the end."""
    while digits:
        tenth = digits // _U10
        if tenth * _U10 != digits:
            break
        digits = tenth
        power += 1
    return digits, power


_EXACT_TENS = TENS.astype(np.float64)
PAIRS = np.frombuffer("".join(f"{n:02d}" for n in range(100)).encode(), np.uint8)


@inline
def count_digits(digits: Any) -> int:
    count = 1
    while count < 20 and digits >= TENS[count]:
        count += 1
    return count


@inline
def put_digits(digits: Any, count: int, out: Array, to: int) -> int:
    """The last `count` digits, with zeros before them."""
    at = to + count
    while at - to >= 2:
        rest = digits // _U100
        pair = (digits - rest * _U100) << _U1
        at -= 2
        out[at], out[at + 1] = PAIRS[pair], PAIRS[pair + _U1]
        digits = rest
    if at > to:
        out[to] = np.uint8(digits % _U10 + np.uint64(48))
    return to + count


@jit
def put_unsigned(number: Any, out: Array, to: int) -> int:
    return put_digits(number, count_digits(number), out, to)


@inline
def put_int(number: int, out: Array, to: int) -> int:
    digits = np.uint64(number)
    if number < 0:
        out[to] = 45
        to += 1
        digits = ~digits + _U1
    return put_digits(digits, count_digits(digits), out, to)


@jit
def put_real(negative: bool, digits: Any, power: int, out: Array, to: int) -> int:
    """digits × 10^power as `json.dumps(values.json_double(…))` writes it; at most 26 bytes."""
    if negative:
        out[to] = 45
        to += 1
    if not digits:
        out[to] = 48
        if not negative:
            return to + 1
        out[to + 1], out[to + 2] = 46, 48
        return to + 3
    count = count_digits(digits)
    point = count + power
    if power >= 0 and point <= 21:
        to = put_digits(digits, count, out, to)
        for _ in range(power):
            out[to] = 48
            to += 1
        return to
    if -4 < point <= 16:
        if point <= 0:
            out[to], out[to + 1] = 48, 46
            to += 2
            return put_digits(digits, count - point, out, to)
        return _put_pointed(digits, count, point, out, to)
    return _put_scientific(digits, count, point - 1, out, to)


@jit
def put_general(negative: bool, digits: Any, power: int, out: Array, to: int) -> int:
    """digits × 10^power as Go's %g writes it (`values.double_text`); at most 26 bytes."""
    if negative:
        out[to] = 45
        to += 1
    if not digits:
        out[to] = 48
        return to + 1
    digits, power = _strip_zeros(digits, power)
    count = count_digits(digits)
    point = count + power
    if not -4 < point <= 6:
        return _put_scientific(digits, count, point - 1, out, to)
    if point <= 0:
        out[to], out[to + 1] = 48, 46
        return put_digits(digits, count - point, out, to + 2)
    if power < 0:
        return _put_pointed(digits, count, point, out, to)
    for _ in range(power):
        digits *= _U10
    return put_digits(digits, point, out, to)


@jit
def put_scaled(negative: bool, number: Any, scale: int, out: Array, to: int) -> int:
    """number / 10^scale with `scale` digits after the point."""
    if negative and number:
        out[to] = 45
        to += 1
    count = max(count_digits(number), scale + 1)
    return _put_pointed(number, count, count - scale, out, to)


@jit
def _put_scientific(digits: Any, count: int, power: int, out: Array, to: int) -> int:
    """d.ddde+XX, the exponent of two digits at least."""
    to = _put_pointed(digits, count, 1, out, to)
    out[to], out[to + 1] = 101, 45 if power < 0 else 43
    size = np.uint64(abs(power))
    return put_digits(size, max(2, count_digits(size)), out, to + 2)


@jit
def _put_pointed(digits: Any, count: int, integer_digits: int, out: Array, to: int) -> int:
    """`count` digits with a point after `integer_digits` of them, which only stands before a digit."""
    put_digits(digits, count, out, to + 1)
    for i in range(to, to + integer_digits):
        out[i] = out[i + 1]
    if count == integer_digits:
        return to + count
    out[to + integer_digits] = 46
    return to + count + 1


@jit
def of_double(bits: int) -> Any:
    """A float64 by its bits → (digits, power of ten, whether it is finite); the sign is that of the bits."""
    fraction, exponent = np.uint64(bits) & _FRACTION, (bits >> 52) & 0x7FF
    if exponent == 0x7FF:
        return _U0, 0, False
    digits, power = fraction, 0
    if exponent:
        digits, power = find_shortest(fraction | _HIDDEN, exponent - 1075, fraction == _U0 and exponent > 1)
    elif fraction:
        digits, power = find_shortest(fraction, -1074, False)
    return digits, power, True


@jit
def of_float(bits: int) -> Any:
    """A float32 by the bits of the same float64 → as `of_double`; False also for what is no float32."""
    fraction, exponent = np.uint64(bits) & _FRACTION, ((bits >> 52) & 0x7FF) - 1023
    if exponent == -1023 and not fraction:
        return _U0, 0, True
    if exponent > 127 or exponent < -149:
        return _U0, 0, False
    mantissa, drop = fraction | _HIDDEN, 29 + max(0, -126 - exponent)
    c = mantissa >> np.uint64(drop)
    if c << np.uint64(drop) != mantissa:
        return _U0, 0, False
    digits, power = find_shortest(c, exponent - 52 + drop, fraction == _U0 and exponent > -126)
    return digits, power, True


@jit
def put_double(bits: int, out: Array, to: int) -> int:
    """A float64 by its bits as JSON has it; -1 for infinities and NaN."""
    digits, power, sound = of_double(bits)
    return put_real(bits < 0, digits, power, out, to) if sound else -1


@jit
def put_float(bits: int, out: Array, to: int) -> int:
    """A float32 by the bits of the same float64; -1 for what is none."""
    digits, power, sound = of_float(bits)
    return put_real(bits < 0, digits, power, out, to) if sound else -1


@jit
def _round_double(high: Any, low: Any, power: int, cut: bool) -> Any:
    """(c, q) of the double nearest to a number of 128 bits × 10^power. cut: the number may be less than 1 too small.

    c is 0 where 128 bits of the product don't tell: it lies in the middle between two doubles, or as good as there.
    """
    if not -200 <= power <= 200:
        return _U0, 0
    shift = 0
    if not high:
        high, low, shift = low, _U0, 64
    while not high >> _U63:
        high = high << _U1 | low >> _U63
        low <<= _U1
        shift += 1
    first, second = _POWERS[power - _LOW_POWER, 0], _POWERS[power - _LOW_POWER, 1]
    rest = high * first
    product = _multiply_high(high, first)
    for piece in (_multiply_high(high, second), _multiply_high(low, first)):
        rest += piece
        if rest < piece:
            product += _U1
    drop = 11 if product >> _U63 else 10
    beyond = product & np.uint64((1 << drop) - 1)
    half = np.uint64(1 << (drop - 1))
    c = product >> np.uint64(drop)
    up = beyond >= half
    if not (low or second or cut):  # exact
        up = beyond > half or (beyond == half and bool(rest or c & _U1))
    elif (beyond == half and rest <= _MARGIN) or (beyond + _U1 == half and ~rest <= _MARGIN):
        return _U0, 0
    if up:
        c += _U1
    q = drop + 65 - shift + _log2(power)
    if c >> np.uint64(53):
        c >>= _U1
        q += 1
    return c, q


@jit
def _read_digits(data: Array, pos: int, end: int) -> Any:
    """Digits, and a point among them → the number without the zeros at its end, as the first 38 digits say it.

    Out: (high, low, power of ten, digits, whether more were cut off; digits before the point, after it (-1: there is
    none), next position).
    """
    high, low = _U0, _U0
    integer, fraction, digits, zeros, cut = 0, -1, 0, 0, False  # zeros: what follows the last digit kept
    while pos < end:
        digit = np.uint64(data[pos]) - np.uint64(48)  # what is below "0" becomes huge
        if digit > np.uint64(9):
            if data[pos] != 46 or fraction >= 0:
                break
            fraction = 0
            pos += 1
            continue
        pos += 1
        if fraction < 0:
            integer += 1
        else:
            fraction += 1
        if not digit:
            zeros += 1 if digits else 0
        elif cut or digits + zeros >= 38:
            cut = True
            zeros += 1
        else:
            for _ in range(zeros + 1):
                if digits >= 19:
                    high = high * _U10 + _multiply_high(low, _U10)
                low *= _U10
                digits += 1
            zeros = 0
            low += digit
            if low < digit:
                high += _U1
    return high, low, zeros - max(fraction, 0), digits, cut, integer, fraction, pos


@jit
def put_decimal(data: Array, pos: int, end: int, lossy: bool, out: Array, to: int) -> Any:
    """DECIMAL text → (next place, whether digits were lost): its double. -1: not `lossy`, no DECIMAL, or not known."""
    negative = pos < end and data[pos] == 45
    high, low, power, digits, cut, integer, fraction, pos = _read_digits(data, pos + 1 if negative else pos, end)
    if pos < end or not 1 <= integer <= 65 or fraction == 0 or fraction > 65:
        return -1, False
    if digits <= 15 and not cut:
        return put_real(negative, low, power, out, to), False
    if not lossy and (digits > 17 or cut):  # a double's shortest text has 17 digits at most
        return -1, False
    c, q = _round_double(high, low, power, cut)
    if not c:
        return -1, False
    shortest, shortest_power = find_shortest(c, q, c == _HIDDEN)
    shortest, shortest_power = _strip_zeros(shortest, shortest_power)
    inexact = cut or high != _U0 or shortest != low or shortest_power != power
    if inexact and not lossy:
        return -1, False
    return put_real(negative, shortest, shortest_power, out, to), inexact


@jit
def read_double(data: Array, pos: int, end: int) -> Any:
    """A number of JSON → (the bits of the nearest float64, whether they are known)."""
    sign = _SIGN if data[pos] == 45 else np.int64(0)
    start = pos + 1 if sign else pos
    point = find_digits_end(data, start, end)
    scale = end - point - 1
    if scale > 0 and end - start <= 20 and data[point] == 46 and find_digits_end(data, point + 1, end) == end:
        number = read_digits(data, start, point) * TENS[scale] + read_digits(data, point + 1, end)
        if number <= _EXACT:  # it is a double, and so is the power: what is rounded is the quotient alone
            return sign | np.float64(np.float64(number) / _EXACT_TENS[scale]).view(np.int64), True
        c, q = _round_double(_U0, number, -scale, False)
        return sign | np.int64(q + 1075) << 52 | np.int64(c & _FRACTION), c != _U0
    high, low, power, _, cut, _, _, pos = _read_digits(data, pos + 1 if sign else pos, end)
    if pos < end:
        minus = data[pos + 1] == 45
        pos += 2 if minus or data[pos + 1] == 43 else 1
        exponent = 0
        while pos < end:
            exponent = min(10 * exponent + int(data[pos]) - 48, 9999)
            pos += 1
        power += -exponent if minus else exponent
    if not high and not low:
        return sign, True
    c, q = _round_double(high, low, power, cut)
    return sign | np.int64(q + 1075) << 52 | np.int64(c & _FRACTION), c != _U0
