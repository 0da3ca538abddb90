"""Telemetry that people say yes to: one file, the standard library alone, Python 3.9 and later.

In preparation, and not to be used yet: the coins, reports, shares and consent are tested, sending over
HTTP, the detached sender and the ready-made commands are not. It is meant to be copied into a project,
beside a `telemetry.json` with its questions:

    telemetry = Telemetry("mytool", pathlib.Path(__file__).with_name("telemetry.json"))
    telemetry.record("commands", command="build")

Nothing is recorded or sent before a person says yes. Then signed questions are answered: each answer
is randomized here, split between proxies that must not work together, and sent in the background.
docs/wire.md describes every byte. Version 1 of the wire format.
"""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module

__all__ = ["Refusal", "Telemetry", "add_argparse", "click_group", "typer_app"]


class _Late:
    """A module that is imported when it is first used: most commands have nothing to send."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, item):
        value = getattr(import_module(self._name), item)
        setattr(self, item, value)
        return value


copy, fractions, hashlib, json, math = map(_Late, "copy fractions hashlib json math".split())
re, sqlite3, struct, threading = map(_Late, "re sqlite3 struct threading".split())
error, request = map(_Late, "urllib.error urllib.request".split())
subprocess, utils = map(_Late, "subprocess email.utils".split())


class Refusal(Exception):  # noqa: N818 - a decision of the device, not an error
    """Why a query is not answered: a reason in a word or two, and a sentence."""

    def __init__(self, reason, detail=""):
        super().__init__(detail)
        self.reason = reason


class _Form(ValueError):
    """What is not in canonical form, or not a query."""


class _Stop(Exception):  # noqa: N818 - the end of a walk
    """The walk ends without an answer and without a refusal."""


# --- exact numbers: no floating-point number decides a coin or a charge

ONE = 1 << 64
_PLACES = 448  # binary places of e^x and ln x: some 130 decimals
_UNIT = 1 << _PLACES


def _exact(value):
    """A double as the shortest decimal that reads back as it: what a ledger adds."""
    return fractions.Fraction(value if isinstance(value, str) else repr(value))


def _fixed_exp(x):
    """e^x in units of 2^-448, for x in the same units."""
    halvings, guard = 40, 128
    one = _UNIT << guard
    small = (x << guard) >> halvings
    total = term = one
    n = 1
    while term not in (0, -1):
        term = term * small // (one * n)
        total += term
        n += 1
    for _ in range(halvings):
        total = total * total >> (_PLACES + guard)
    return total >> guard


def exponential(x):
    """e^x as a fraction, for a fraction x."""
    return fractions.Fraction(_fixed_exp(x.numerator * _UNIT // x.denominator), _UNIT)


def loss(ratio, times=1):
    """The loss `times` ln(ratio), or of its inverse if that is larger, rounded up to a double."""
    ratio = max(ratio, 1 / ratio)
    if ratio == 1:
        return 0.0
    near = fractions.Fraction(math.log(ratio.numerator) - math.log(ratio.denominator))
    point = near.numerator * _UNIT // near.denominator
    value, power = ratio.numerator * _UNIT // ratio.denominator, _fixed_exp(point)
    # ln r = g + 2 artanh((r - e^g) / (r + e^g)), where the quotient is tiny
    quotient = (value - power) * _UNIT // (value + power)
    square = quotient * quotient // _UNIT
    total, term, n = 0, quotient, 1
    while term not in (0, -1):
        total += term // n
        term = term * square // _UNIT
        n += 2
    exact = fractions.Fraction((point + 2 * total) * times, _UNIT)
    found = float(exact)
    return math.nextafter(found, math.inf) if exact > fractions.Fraction(found) else found


def _up(p):
    return min(math.ceil(p * ONE), ONE - 1)


def _down(p):
    return max(math.floor(p * ONE), 1)


def _nearest(p):
    return min(max(round(p * ONE), 1), ONE - 1)


class Words:
    """Draws from a stream of 64-bit words: by default from the operating system."""

    def __init__(self, script=None):
        self._script = script
        self._block, self._at = (b"", 0) if script is None else (script, 0)

    def bytes(self, n):
        """The bytes of whole words; of the last one, those that are not needed are dropped."""
        end = self._at + (n + 7) // 8 * 8
        if end > len(self._block):
            if self._script is not None:
                raise IndexError("the random bytes are used up")
            self._block, end = os.urandom(max(end - self._at, 4096)), end - self._at
            self._at = 0
        found = self._block[self._at : self._at + n]
        self._at = end
        return found

    def word(self):
        """The next 8 bytes as a number."""
        return int.from_bytes(self.bytes(8), "little")

    def coin(self, t):
        """1 with probability t / 2^64."""
        return int(self.word() < t)

    def coins(self, k, t):
        """One coin for each of k bits."""
        return [int(word < t) for word in struct.unpack("<%dQ" % k, self.bytes(8 * k))]

    def below(self, m):
        """Uniform on 0 ... m - 1."""
        while True:
            x = self.word() * m
            if x % ONE >= ONE % m:
                return x >> 64

    def pick(self, edges):
        """How many of the cumulative weights are at most the next word."""
        word = self.word()
        return sum(edge <= word for edge in edges)

    def subset(self, n, size):
        """`size` of n places, every choice equally likely, as bits."""
        bits, left = [], size
        for place in range(n):
            bits.append(int(self.below(n - place) < left))
            left -= bits[-1]
        return bits

    def some(self, n, most):
        """Up to `most` of 0 ... n - 1: the first steps of a shuffle."""
        places = list(range(n))
        for i in range(min(n, most)):
            if n - i > 1:
                j = i + self.below(n - i)
                places[i], places[j] = places[j], places[i]
        return places[:most]


# --- Ed25519 (RFC 8032), verification only: public data and public keys, so its time may vary

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)  # of -1


def _add(p, q):
    a = (p[1] - p[0]) * (q[1] - q[0]) % _P
    b = (p[1] + p[0]) * (q[1] + q[0]) % _P
    c = 2 * _D * p[3] % _P * q[3] % _P
    d = 2 * p[2] * q[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _point(data):
    """The point that 32 bytes encode, or None."""
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    if y >= _P:
        return None
    u, w = (y * y - 1) % _P, (_D * y * y + 1) % _P
    x = u * pow(w, 3, _P) * pow(u * pow(w, 7, _P), (_P - 5) // 8, _P) % _P
    if (w * x * x + u) % _P == 0:
        x = x * _ROOT % _P
    if (w * x * x - u) % _P or (sign and not x):
        return None
    x = _P - x if x & 1 != sign else x
    return x, y, 1, x * y % _P


def verify(public, signature, content):
    """Whether this is the key's signature of the content."""
    if len(public) != 32 or len(signature) != 64:
        return False
    key, s = _point(public), int.from_bytes(signature[32:], "little")
    if key is None or s >= _ORDER:
        return False
    digest = hashlib.sha512(signature[:32] + public + content).digest()
    k = int.from_bytes(digest, "little") % _ORDER
    base = _point(b"\x58" + b"\x66" * 31)
    minus = (_P - key[0], key[1], 1, _P - key[3])
    table = (None, base, minus, _add(base, minus))
    total = (0, 1, 1, 0)
    for bit in range(252, -1, -1):
        total = _add(total, total)
        step = table[(s >> bit & 1) | (k >> bit & 1) << 1]
        total = total if step is None else _add(total, step)
    scale = pow(total[2], _P - 2, _P)
    x, y = total[0] * scale % _P, total[1] * scale % _P
    return (y | (x & 1) << 255).to_bytes(32, "little") == signature[:32]


def siphash(key, data):
    """SipHash-2-4 (Aumasson and Bernstein 2012): 8 bytes."""
    mask = ONE - 1
    k = struct.unpack("<2Q", key)
    a, b = k[0] ^ 0x736F6D6570736575, k[1] ^ 0x646F72616E646F6D
    c, d = k[0] ^ 0x6C7967656E657261, k[1] ^ 0x7465646279746573
    n = len(data)
    padded = data + bytes(7 - n % 8) + bytes([n & 255])
    for word in (*struct.unpack("<%dQ" % (len(padded) // 8), padded), None):
        if word is None:
            c ^= 255
        else:
            d ^= word
        for _ in range(2 if word is not None else 4):
            a = (a + b) & mask
            b = (b << 13 & mask | b >> 51) ^ a
            a = a << 32 & mask | a >> 32
            c = (c + d) & mask
            d = (d << 16 & mask | d >> 48) ^ c
            a = (a + d) & mask
            d = (d << 21 & mask | d >> 43) ^ a
            c = (c + b) & mask
            b = (b << 17 & mask | b >> 47) ^ c
            c = c << 32 & mask | c >> 32
        a ^= word or 0
    return struct.pack("<Q", a ^ b ^ c ^ d)


# --- canonical bytes: the only way to write a query. A double is {"f64": its bits}, a float here


def canonical(tree):
    """The canonical text of a tree."""

    def written(part):
        if isinstance(part, dict):
            return {key: written(each) for key, each in part.items()}
        if isinstance(part, list):
            return [written(each) for each in part]
        return {"f64": struct.pack(">d", part).hex()} if isinstance(part, float) else part

    return json.dumps(written(tree), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _object(pairs):
    table = dict(pairs)
    if len(table) < len(pairs):
        raise _Form("a key is repeated")
    if "f64" not in table:
        return table
    digits = table["f64"]
    if len(table) > 1 or not (isinstance(digits, str) and re.fullmatch("[0-9a-f]{16}", digits)):
        raise _Form("f64 must be 16 hexadecimal digits")
    value = struct.unpack(">d", bytes.fromhex(digits))[0]
    if not math.isfinite(value):
        raise _Form("a double must be finite")
    return value


def _no_fraction(_):
    raise _Form("a decimal fraction is not canonical")


def _depth(tree):
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return 1 + max(map(_depth, parts), default=0)


def _fits(tree):
    if isinstance(tree, (dict, list)):
        return all(map(_fits, tree.values() if isinstance(tree, dict) else tree))
    return not isinstance(tree, int) or -(1 << 63) <= tree < 1 << 63


def read_canonical(text):
    """The tree that a canonical text writes; any other spelling is refused."""
    try:
        text.encode()
        tree = json.loads(
            text, object_pairs_hook=_object, parse_float=_no_fraction, parse_constant=_no_fraction
        )
        good = _depth(tree) <= 102 and _fits(tree) and canonical(tree) == text
    except (ValueError, RecursionError):
        good = False
    if not good:
        raise _Form("not canonical JSON")
    return tree


# --- checks: each takes a value and its name, and gives the value or raises

_LATEST = 1 << 40
_HIDDEN = "[\0-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"


def _refuse(name, value=""):
    raise _Form("%s = %.200r breaks a rule of queries" % (name, value))


def _must(holds):
    return lambda value, name: value if holds(value) else _refuse(name, value)


def _whole(least, most):
    return _must(lambda value: type(value) is int and least <= value <= most)


def _double(most, inclusive=True):
    return _must(
        lambda value: type(value) is float and (0 < value < most or (inclusive and value == most))
    )


def _like(pattern):
    return _must(lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None)


def _one(*known):
    return _must(lambda value: any(type(value) is type(k) and value == k for k in known))


def _text(longest, empty=False, lines=False):
    def holds(value):
        if not isinstance(value, str) or len(value) > longest or not (empty or value.strip()):
            return False
        shown = value.replace("\n", "").replace("\t", "") if lines else value
        return re.search(_HIDDEN, shown) is None

    return _must(holds)


def _or_null(check):
    return lambda value, name: None if value is None else check(value, name)


def _list(check, least=0, most=_LATEST):
    def checked(value, name):
        if not isinstance(value, list) or not least <= len(value) <= most:
            _refuse(name)
        return [check(part, "%s[%d]" % (name, i)) for i, part in enumerate(value)]

    return checked


def _fields(text):
    """Checks by name, from `name:type`; with `?`, a field may be null."""
    pairs = (each.split(":") for each in text.split())
    return {
        name: _or_null(_TYPES[kind[:-1]]) if kind[-1] == "?" else _TYPES[kind]
        for name, kind in pairs
    }


def _shape(required, optional="", more=False):
    """A table with these fields: all that are required, and of the others some; with `more`, any."""

    def checked(value, name):
        must, known = _fields(required), _fields(required + " " + optional)
        if not isinstance(value, dict) or set(must) - set(value):
            _refuse(name)
        if not more and set(value) - set(known):
            _refuse(name, sorted(set(value) - set(known)))
        return {part: known[part](value[part], part) for part in value if part in known}

    return checked


def _different(name, texts):
    if len(set(texts)) < len(texts):
        _refuse(name, "the same text twice")


_TYPES = {
    "any": lambda value, _: value,
    "ask": _one("form", "value"),
    "buckets": _list(lambda value, _: value, 1, 1 << 16),
    "class": _whole(0, 6),
    "count": _whole(1, _LATEST),
    "flag": _one(True, False),
    "format": _one("deniable query 1", "deniable query 2"),
    "grace": _whole(1, 30 * 86400),
    "id": _like("[a-z0-9][a-z0-9._-]{0,63}"),
    "key": _like("[0-9a-f]{64}"),
    "kind": _one("number", "text"),
    "line": _text(200),
    "loss": _double(1e6),
    "many": _whole(2, 1 << 16),
    "messages": _whole(1, 1000),
    "neyman": _one("neyman"),
    "part": _double(1.0),
    "pause": _whole(0, 30 * 86400),
    "pattern": _text(1000, empty=True),
    "proxies": _list(_text(500), 2, 16),
    "question": _text(2000, empty=True, lines=True),
    "rate": _double(1e15),
    "rows": _one("random", "aggregate", "several", "all"),
    "serial": _whole(1, 2**53 - 1),
    "signature": _like("[0-9a-f]{128}"),
    "span": _whole(1, _LATEST),
    "sql": _text(8192, empty=True, lines=True),
    "stratum": _text(100),
    "time": _whole(0, _LATEST),
    "true": _one(True),
    "value": _text(63),
    "version": _one("deniable version 1"),
    "versions": _whole(1, 1 << 32),
    "within": _double(1.0, False),
}


# --- text patterns: Glushkov's position automaton, so that reading takes linear time

_LAST = 0x10FFFF
_LONGEST_TEXT = 4096
_ENDLESS = 1 << 30


def _united(ranges, inverted=False):
    """Ranges of code points in ascending order, or all that are in none of them."""
    out = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    if not inverted:
        return out
    ends = [0] + [each for span in out for each in (span[0] - 1, span[1] + 1)] + [_LAST]
    return [span for span in zip(ends[::2], ends[1::2]) if span[0] <= span[1]]


_ESCAPES = {
    "n": [(10, 10)],
    "t": [(9, 9)],
    "d": [(48, 57)],
    "w": [(48, 57), (65, 90), (95, 95), (97, 122)],
    "s": [(9, 13), (32, 32)],
}
_ESCAPES.update({name.upper(): _united(_ESCAPES[name], True) for name in "dws"})


def _glob_to_regex(glob):
    out, at = "", 0
    while at < len(glob):
        character = glob[at]
        if character == "[":
            start = at + 1 + (glob[at + 1 : at + 2] == "!")
            end = glob.find("]", start + 1)
            if end < 0:
                _refuse("pattern", glob)
            inside = glob[start:end].replace("\\", "\\\\").replace("^", "\\^")
            out += "[%s%s]" % ("^" * (start - at - 1), inside)
            at = end
        elif character in "*?":
            out += "[\\d\\D]" + "*" * (character == "*")
        else:
            out += character if character.isalnum() else "\\" + character
        at += 1
    return out


def _ones(mask):
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Pattern:
    """A pattern of texts. A fragment is (can be empty, first positions, last positions)."""

    def __init__(self, kind, text):
        self._text = _glob_to_regex(text) if kind == "glob" else text
        self.sets, self.follow, self._at, self._depth = [], [], 0, 0
        self._takers, self._steps = {}, {}
        self.empty, self.start, self.end = self._alternatives()
        if self._at < len(self._text) or len(self.sets) > 400:
            self._refuse()

    def _refuse(self):
        _refuse("pattern", self._text)

    def _peek(self):
        return self._text[self._at : self._at + 1]

    def _take(self):
        self._at += 1
        return self._text[self._at - 1 : self._at] or self._refuse()

    def _alternatives(self):
        empty, first, last = self._sequence()
        while self._peek() == "|":
            self._at += 1
            other = self._sequence()
            empty, first, last = empty or other[0], first | other[1], last | other[2]
        return empty, first, last

    def _sequence(self):
        whole = (True, 0, 0)
        while self._peek() not in ("", "|", ")"):
            whole = self._joined(whole, self._repeated())
        return whole

    def _joined(self, one, other):
        self._link(one[2], other[1])
        first = one[1] | (other[1] if one[0] else 0)
        return one[0] and other[0], first, other[2] | (one[2] if other[0] else 0)

    def _link(self, last, first):
        for place in _ones(last):
            self.follow[place] |= first

    def _repeated(self):
        start, known = self._at, len(self.sets)
        part = self._atom()
        sign = self._peek()
        if not sign or sign not in "*+?{":
            return part
        self._at += 1
        least, most = {"*": (0, _ENDLESS), "+": (1, _ENDLESS), "?": (0, 1)}.get(sign, (0, 0))
        if sign == "{":
            found = re.compile(r"([0-9]{1,4})(,([0-9]{0,4}))?\}").match(self._text, self._at)
            found = found or self._refuse()
            self._at, least = found.end(), int(found[1])
            most = int(found[3]) if found[3] else _ENDLESS if found[2] else least
        end = self._at
        if most < least or (self._peek() and self._peek() in "*+?{"):
            self._refuse()
        copies = max(least, 1) if most == _ENDLESS else most
        whole = (True, 0, 0)
        del self.sets[known:], self.follow[known:]
        for n in range(copies):
            self._at = start
            empty, first, last = self._atom()
            if most == _ENDLESS and n == copies - 1:
                self._link(last, first)
            whole = self._joined(whole, (empty or n >= least, first, last))
            if not first:
                break  # an empty part stays empty however often it is repeated
        self._at = end
        return whole

    def _atom(self):
        character = self._take()
        if character == "(":
            return self._group()
        if character in "*+?{^$]}":
            self._refuse()
        known = {"[": self._class, "\\": self._escape, ".": lambda: _united([(10, 10)], True)}
        ranges = known.get(character, lambda: [(ord(character), ord(character))])()
        if len(self.sets) == 1 << 16:
            self._refuse()
        self.sets.append(ranges)
        self.follow.append(0)
        mask = 1 << (len(self.sets) - 1)
        return False, mask, mask

    def _group(self):
        self._depth += 1
        if self._peek() == "?":
            self._at += 1
            if self._take() != ":":
                self._refuse()
        if self._depth > 40:
            self._refuse()
        fragment = self._alternatives()
        if self._take() != ")":
            self._refuse()
        self._depth -= 1
        return fragment

    def _escape(self):
        character = self._take()
        if character not in _ESCAPES and character.isalnum():
            self._refuse()
        return _ESCAPES.get(character, [(ord(character), ord(character))])

    def _class(self):
        inverted = self._peek() == "^"
        self._at += inverted
        ranges = []
        while not ranges or self._peek() != "]":
            low = self._member()
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
                self._at += 1
                (a, b), (c, d) = low[0], self._member()[0]
                if a != b or c != d or a > c or len(low) > 1:
                    self._refuse()
                low = [(a, c)]
            ranges += low
        self._at += 1
        return _united(ranges, inverted)

    def _member(self):
        character = self._take()
        return self._escape() if character == "\\" else [(ord(character), ord(character))]

    def matches(self, text):
        """Whether the pattern matches the whole text."""
        if not text or len(text) > _LONGEST_TEXT:
            return self.empty and not text
        following, state = self.start, 0
        for character in text:
            if character not in self._takers:
                code = ord(character)
                inside = [any(low <= code <= high for low, high in each) for each in self.sets]
                self._takers[character] = sum(1 << i for i, each in enumerate(inside) if each)
            state = following & self._takers[character]
            if not state:
                return False
            if state not in self._steps:
                step = 0
                for place in _ones(state):
                    step |= self.follow[place]
                self._steps[state] = step
            following = self._steps[state]
        return bool(state & self.end)


def _overlap(patterns):
    """Whether any two patterns can match the same text: a search through pairs of positions."""

    def meet(one, other):
        spans = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
        return any(low <= high and not 0xD800 <= low <= high <= 0xDFFF for low, high in spans)

    work = 0
    for i, one in enumerate(patterns):
        for other in patterns[i + 1 :]:
            if one.empty and other.empty:
                return True
            work += len(one.sets) * len(other.sets)
            fresh = [sum(1 << j for j, b in enumerate(other.sets) if meet(a, b)) for a in one.sets]
            queue = [(one.start, other.start)]
            for left, right in queue:
                for a in _ones(left):
                    work += 1
                    found = right & fresh[a]
                    fresh[a] &= ~found
                    for b in _ones(found):
                        if one.end >> a & other.end >> b & 1:
                            return True
                        queue.append((one.follow[a], other.follow[b]))
                if work > 1_000_000:
                    _refuse("patterns", "too complicated to compare")
    return False


# --- buckets

_NUMBER = r"(-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?|-?inf)"
_NAME = "(?!(?:rowid|oid|_rowid_)$|sqlite_|pragma_|deniable_)[a-z_][a-z0-9_]{0,62}"


def _decimal(value):
    whole = value.is_integer() and abs(value) < 2**53
    return str(int(value)) if whole else repr(value)


class _Range:
    """Numbers between two bounds, compared exactly."""

    def __init__(self, bucket, name):
        self.low_closed = self.high_closed = True
        if isinstance(bucket, float) and not (bucket == 0 and math.copysign(1, bucket) < 0):
            self.low = self.high = self.first = self.last = self.choice = bucket
            self.label = _decimal(bucket)
            return
        found = isinstance(bucket, str) and re.fullmatch(
            r"([\[(])%s,%s([\])])" % (_NUMBER, _NUMBER), bucket
        )
        if not found:
            _refuse(name, bucket)
        self.low, self.high, self.choice = float(found[2]), float(found[3]), None
        self.low_closed, self.high_closed = found[1] == "[", found[4] == "]"
        self.first = self.low if self.low_closed else math.nextafter(self.low, math.inf)
        self.last = self.high if self.high_closed else math.nextafter(self.high, -math.inf)
        self.label = "%s%s,%s%s" % (found[1], _decimal(self.low), _decimal(self.high), found[4])
        closed = (math.isinf(self.low) and self.low_closed) or (
            math.isinf(self.high) and self.high_closed
        )
        if closed or self.first > self.last or self.low == self.high or self.label != bucket:
            _refuse(name, bucket)

    def holds(self, value):
        if not isinstance(value, (int, float)):
            return False
        above = value >= self.low if self.low_closed else value > self.low
        return above and (value <= self.high if self.high_closed else value < self.high)


class _TextBucket:
    """An exact text, or all texts that match a pattern."""

    def __init__(self, bucket, name):
        self.choice = self.pattern = None
        if isinstance(bucket, str):
            self.choice = self.label = _TYPES["pattern"](bucket, name)
            return
        found = _shape("", "glob:pattern regex:pattern")(bucket, name)
        if len(found) != 1:
            _refuse(name, bucket)
        kind, written = next(iter(found.items()))
        self.pattern, self.label = Pattern(kind, written), "%s:%s" % (kind, written)

    def holds(self, value):
        if not isinstance(value, str):
            return False
        return self.pattern.matches(value) if self.pattern else value == self.choice


def _by_language(check):
    def checked(value, name):
        if not isinstance(value, dict) or not 1 <= len(value) <= 50:
            _refuse(name)
        tag = _like("(?=.{1,35}$)[a-z]{2,3}(-[A-Za-z0-9]{1,8})*")
        return {tag(each, name): check(part, name) for each, part in value.items()}

    return checked


_TYPES["questions"] = _by_language(_text(500, lines=True))
_TYPES["labels"] = _by_language(_list(_text(200)))
_COLUMN = _shape(
    "name:line kind:kind buckets:buckets other:flag",
    "overlapping:true question:questions labels:labels",
)


class Column:
    """The buckets of one column of the answer."""

    def __init__(self, tree, at):
        given = _COLUMN(tree, at)
        self.name, self.other = given["name"], given["other"]
        self.overlapping = "overlapping" in given
        self.question, self.labels = given.get("question"), given.get("labels")
        make = _Range if given["kind"] == "number" else _TextBucket
        self.buckets = [make(bucket, at + ".buckets") for bucket in given["buckets"]]
        self.size = len(self.buckets) + self.other
        self.names = [bucket.label for bucket in self.buckets] + ["other"] * self.other
        patterns = [b.pattern for b in self.buckets if getattr(b, "pattern", None)]
        self.positions = sum(len(pattern.sets) for pattern in patterns)
        if self.overlapping:
            return
        if make is _Range:
            for one, other in zip(self.buckets, self.buckets[1:]):
                if other.first <= one.last:
                    _refuse(at, other.label)
            return
        if len(patterns) * len(self.buckets) > 1 << 18:
            _refuse(at, len(patterns))
        exact = [b.choice for b in self.buckets if b.pattern is None]
        _different(at, exact)
        if any(p.matches(each) for each in exact for p in patterns) or _overlap(patterns):
            _refuse(at, "two buckets that overlap")

    def indices(self, value):
        """All buckets that a value is in, ascending; that of `other`, or none, if in no other."""
        value = int(value) if isinstance(value, bool) else value
        found = [i for i, bucket in enumerate(self.buckets) if bucket.holds(value)]
        if not found and self.other:
            return [len(self.buckets)]
        return found if self.overlapping else found[:1]


class Buckets:
    """All possible answers: the product of the columns' buckets, the first most significant."""

    def __init__(self, columns):
        self.columns = columns
        self.size = math.prod(column.size for column in columns)
        self.complete = all(column.other for column in columns)
        self.positions = sum(column.positions for column in columns)
        _different("columns", [column.name for column in columns])
        characters = sum(
            self.size // c.size * sum(len(label) + len(c.name) + 3 for label in c.names)
            for c in columns
        )
        if not 2 <= self.size <= 1 << 16 or characters > 1 << 24:
            _refuse("columns", self.size)
        self.labels = columns[0].names if len(columns) == 1 else [""]
        for i, c in enumerate(columns if len(columns) > 1 else ()):
            joint = ", " * (i > 0) + c.name + "="
            self.labels = [start + joint + label for start in self.labels for label in c.names]
        _different("columns", self.labels)

    def indices(self, row):
        """All buckets of a row, ascending."""
        found = [0] if len(row) == len(self.columns) else []
        for column, value in zip(self.columns, row):
            places = column.indices(value)
            found = [total * column.size + place for total in found for place in places]
        return found

    def index(self, row):
        """The bucket of a row, the first if there are several; -1 if it is in none."""
        return next(iter(self.indices(row)), -1)


# --- mechanisms: where an answer chooses a bit, it does so by arithmetic, not by a branch


def _pack(bits):
    return sum(bit << j for j, bit in enumerate(bits)).to_bytes((len(bits) + 7) // 8, "little")


def _width(outputs):
    return 1 if outputs <= 1 << 8 else 2 if outputs <= 1 << 16 else 4


def _other(h, o, v):
    """v if h is 1, else the o-th of the other values."""
    o += o >= v
    return o ^ ((o ^ v) & -h)


class Mechanism:
    """The length of a report, its loss, and how the reports of some answers are drawn."""

    unary = False
    permanent = replay = lifetime_ratio = None

    def __init__(self, n_bytes, ratio, draw):
        self.bytes, self.ratio, self.draw = n_bytes, ratio, draw

    def two_steps(self, k, p, q, ratio):
        """Keep what is drawn as permanent bits, and randomize them again in each report."""
        if q <= p:
            _refuse("q", q)

        def replay(kept, words):
            zeros = [_pack(words.coins(k, p)) for _ in kept]
            ones = [_pack(words.coins(k, q)) for _ in kept]
            return [
                bytes(b & row[j] | a & ~row[j] & 255 for j, (a, b) in enumerate(zip(low, high)))
                for row, low, high in zip(kept, zeros, ones)
            ]

        first = self.permanent = self.draw
        self.ratio, self.lifetime_ratio, self.replay = ratio, self.ratio, replay
        self.draw = lambda sets, words: replay(first(sets, words), words)
        return self


def _second_ratio(one, zero, p, q):
    """The ratio after a second step of probabilities p and q, for first bits of one and zero."""
    high, low = (each * q + (ONE - each) * p for each in (one, zero))
    return fractions.Fraction(high * (ONE * ONE - low), low * (ONE * ONE - high))


def _unary(k, a, b):
    if not 0 < b < a < ONE:
        _refuse("mechanism.a", a)
    flips = int(a == ONE // 2)

    def draw(sets, words):
        rows = [words.coins(k, b) for _ in sets]
        for place in range(len(sets[0]) if sets else 0):
            for bits, members in zip(rows, sets):
                coin = words.coin(a)
                for j in range(k):
                    bits[j] ^= (j == members[place]) & (coin ^ (bits[j] & (flips ^ 1)))
        return [_pack(bits) for bits in rows]

    made = Mechanism((k + 7) // 8, fractions.Fraction(a * (ONE - b), b * (ONE - a)), draw)
    made.unary, made.a, made.b = True, a, b
    return made


def _rappor(k, f, p, q):
    flip, low, high = (_nearest(fractions.Fraction(each)) for each in (f / 2, p, q))
    if 2 * flip >= ONE:
        _refuse("mechanism.f", f)

    def permanent(sets, words):
        rows = [words.coins(k, flip) for _ in sets]
        return [
            _pack([bit ^ (j == v) for j, bit in enumerate(bits)]) for bits, (v,) in zip(rows, sets)
        ]

    kept = ONE - flip
    made = Mechanism((k + 7) // 8, fractions.Fraction(kept * kept, flip * flip), permanent)
    return made.two_steps(k, low, high, _second_ratio(kept, flip, low, high))


def _direct(k, epsilon):
    growth = exponential(epsilon)
    t = _down(growth / (growth + k - 1))

    def draw(sets, words):
        h = [words.coin(t) for _ in sets]
        others = [words.below(k - 1) for _ in sets]
        values = (_other(h[i], others[i], v) for i, (v,) in enumerate(sets))
        return [value.to_bytes(_width(k), "little") for value in values]

    return Mechanism(_width(k), fractions.Fraction(t * (k - 1), ONE - t), draw)


def _subset_size(k, growth):
    """How many of k values are reported: what the variance grows with is least."""
    near = math.floor(k / (growth + 1))
    return min(
        max(near, 1),
        min(near + 1, k - 1),
        key=lambda w: (growth * w + k - w) ** 2 / (w * (k - w)),
    )


def _subset(k, epsilon):
    growth = exponential(epsilon)
    w = _subset_size(k, growth)
    t = _down(growth * w / (growth * w + k - w))

    def draw(sets, words):
        h = [words.coin(t) for _ in sets]
        rows = {}
        for wanted in (1, 0):
            for i in (i for i, each in enumerate(h) if each == wanted):
                rows[i] = words.subset(k - 1, w - wanted) + [0]
        for i, (v,) in enumerate(sets):
            # what the true bucket's place got goes to the last, which is free
            rows[i][k - 1] = sum(bit & (j == v) for j, bit in enumerate(rows[i]))
            rows[i] = [bit ^ ((bit ^ h[i]) & (j == v)) for j, bit in enumerate(rows[i])]
        return [_pack(rows[i]) for i in range(len(sets))]

    return Mechanism((k + 7) // 8, fractions.Fraction(t * (k - w), (ONE - t) * w), draw)


def hashed(alpha, beta, v, g, bits):
    """hash(v) of local hashing, for seeds of `bits` bits."""
    half = bits // 2
    for mixer in (0x9E3779B97F4A7C15, 0x243F6A8885A308D3, 0xB7E151628AED2A6A):
        v = v * (mixer >> (64 - half) | 1) % (1 << half)
        v ^= v >> (half // 2)
    return ((alpha * v + beta) % (1 << bits) >> (half - 1)) * g >> (half + 1)


def _hashing(k, epsilon, g=None):
    growth = exponential(epsilon)
    if g is None:

        def variance(g):
            a, b = growth / (growth + g - 1), fractions.Fraction(1, g)
            return b * (1 - b) / (a - b) ** 2

        near = min(math.floor(growth + 1), 1 << 16)
        g = min(near, min(near + 1, 1 << 16), key=variance)
    size = 4 if k <= 1 << 16 else 8
    t = _down(growth / (growth + g - 1))

    def draw(sets, words):
        seeds = words.bytes(2 * size * len(sets))
        h = [words.coin(t) for _ in sets]
        others = [words.below(g - 1) for _ in sets]
        out = []
        for i, (v,) in enumerate(sets):
            seed = seeds[2 * size * i : 2 * size * (i + 1)]
            parts = (int.from_bytes(part, "little") for part in (seed[:size], seed[size:]))
            value = _other(h[i], others[i], hashed(*parts, v, g, 8 * size))
            out.append(seed + value.to_bytes(_width(g), "little"))
        return out

    return Mechanism(2 * size + _width(g), fractions.Fraction(t * (g - 1), ONE - t), draw)


def _hadamard(k, epsilon):
    growth = exponential(epsilon)
    outputs = 1 << k.bit_length()
    t = _down(growth / (growth + 1))

    def draw(sets, words):
        columns = [words.below(outputs) for _ in sets]
        h = [words.coin(t) for _ in sets]
        out = []
        for i, (v,) in enumerate(sets):
            differs = bin((v + 1) & columns[i]).count("1") & 1 ^ 1 ^ h[i]
            value = columns[i] ^ ((v + 1) & -(v + 1) & -differs)
            out.append(value.to_bytes(_width(outputs), "little"))
        return out

    return Mechanism(_width(outputs), fractions.Fraction(t, ONE - t), draw)


def _projective(k, epsilon, q):
    if any(q % d == 0 for d in range(2, math.isqrt(q) + 1)):
        _refuse("mechanism.q", q)
    t = 2
    while (q**t - 1) // (q - 1) < k:
        t += 1
    if q**t > 1 << 25:
        _refuse("mechanism.q", q)
    first = [(q**r - 1) // (q - 1) for r in range(t + 1)]  # the first point that leads at place r
    growth, near, points = exponential(epsilon), first[t - 1], first[t]
    truthful = _down(growth * near / (growth * near + points - near))

    def vector(code):
        return [code // q**place % q for place in range(t)]

    def point(v, product, others):
        """The number of a point y with x . y = product, of which all but one coordinate are given."""
        lead = sum(v >= each for each in first[1:t])
        x, y = vector(v - first[lead] + q**lead), vector(others)
        y[lead:] = [0, *y[lead:-1]]
        y[lead] = (product - sum(a * b for a, b in zip(x, y))) % q
        top = max(place for place, each in enumerate(y) if each)
        scale = pow(y[top], q - 2, q)
        code = sum(each * scale % q * q**place for place, each in enumerate(y))
        return code - q**top + first[top]

    def draw(sets, words):
        h = [words.coin(truthful) for _ in sets]
        nonzero = [1 + words.below(q ** (t - 1) - 1) for _ in sets]
        free = [words.below(q ** (t - 1)) for _ in sets]
        values = [
            point(v, 1 - h[i], free[i] + h[i] * (nonzero[i] - free[i]))
            for i, (v,) in enumerate(sets)
        ]
        return [value.to_bytes(_width(points), "little") for value in values]

    ratio = fractions.Fraction(truthful * (points - near), (ONE - truthful) * near)
    return Mechanism(_width(points), ratio, draw)


def _ranges(k, epsilon, fan_outs):
    sizes, leaves = [k], [1]
    for fan_out in reversed(fan_outs[1:]):
        sizes.insert(0, -(-sizes[0] // fan_out))
        leaves.insert(0, leaves[0] * fan_out)
    if sizes[0] != fan_outs[0] or k > 2048:
        _refuse("mechanism.fan_outs", fan_outs)
    growth = exponential(epsilon)
    levels = []
    for size in sizes:
        build = _direct if _subset_size(size, growth) == 1 else _subset
        levels.append(build(size, epsilon))
    length = 1 + max(level.bytes for level in levels)

    def draw(sets, words):
        depths = [words.below(len(levels)) for _ in sets]
        rows = [b""] * len(sets)
        for depth, level in enumerate(levels):
            chosen = [i for i, each in enumerate(depths) if each == depth]
            drawn = level.draw([[sets[i][0] // leaves[depth]] for i in chosen], words)
            for i, report in zip(chosen, drawn):
                rows[i] = (bytes([depth]) + report).ljust(length, b"\0")
        return rows

    return Mechanism(length, max(max(level.ratio, 1 / level.ratio) for level in levels), draw)


def _matrix(k, P):
    if len(P) != k or k > 1024 or any(len(row) != k for row in P):
        _refuse("mechanism.P", len(P))
    columns = []
    for v in range(k):
        entries = [fractions.Fraction(row[v]) for row in P]
        if abs(float(sum(entries)) - 1) > 1e-9:
            _refuse("mechanism.P", v)
        weights = [_down(entry / sum(entries)) for entry in entries]
        weights[weights.index(max(weights))] += ONE - sum(weights)
        columns.append(weights)
    edges = [[sum(weights[: u + 1]) for u in range(k - 1)] for weights in columns]
    worst = max(fractions.Fraction(max(row), min(row)) for row in zip(*columns))

    def draw(sets, words):
        return [words.pick(edges[v]).to_bytes(_width(k), "little") for (v,) in sets]

    return Mechanism(_width(k), worst, draw)


def _epsilon(value, name):
    found = _double(40.0)(value, name)
    return fractions.Fraction(found) if found >= 1e-9 else _refuse(name, value)


def _two_coin(k, p, q, inverted=False):
    p, q = fractions.Fraction(p), fractions.Fraction(q)
    b = (1 - p) * (1 - q if inverted else q)
    one, zero = (float(each) for each in (p + b, b))
    return _unary(
        k, *(_nearest(fractions.Fraction(each)) if each < 1 else ONE for each in (one, zero))
    )


def _plain_unary(k, a, b):
    return _unary(k, *(_nearest(fractions.Fraction(each)) for each in (a, b)))


def _symmetric(k, epsilon):
    b = _up(1 / (exponential(epsilon / 2) + 1))
    return _unary(k, ONE - b, b)


def _optimized(k, epsilon):
    return _unary(k, ONE // 2, _up(1 / (exponential(epsilon) + 1)))


_TYPES.update(
    epsilon=_epsilon,
    matrix=_list(_list(_TYPES["within"])),
    g=_or_null(_whole(2, 1 << 16)),
    q=_whole(2, 1 << 25),
    fanouts=_list(_whole(2, 2048), 1, 11),
)
_MECHANISMS = {
    "TwoCoin": ("p:within q:within", "inverted:true", _two_coin),
    "UnaryEncoding": ("a:within b:within", "", _plain_unary),
    "SymmetricUnary": ("epsilon:epsilon", "", _symmetric),
    "OptimizedUnary": ("epsilon:epsilon", "", _optimized),
    "DirectEncoding": ("epsilon:epsilon", "", _direct),
    "SubsetSelection": ("epsilon:epsilon", "", _subset),
    "LocalHashing": ("epsilon:epsilon", "g:g", _hashing),
    "HadamardResponse": ("epsilon:epsilon", "", _hadamard),
    "ProjectiveResponse": ("epsilon:epsilon q:q", "", _projective),
    "HierarchicalRanges": ("epsilon:epsilon fan_outs:fanouts", "", _ranges),
    "DesignMatrix": ("P:matrix", "", _matrix),
    "BasicRappor": ("f:within p:within q:within", "", _rappor),
}


def mechanism(tree, k):
    """The mechanism that a query describes, for k buckets."""
    name = tree.get("name") if isinstance(tree, dict) else None
    if not isinstance(name, str) or name not in _MECHANISMS:
        _refuse("mechanism.name", name)
    required, optional, build = _MECHANISMS[name]
    given = _shape("name:any " + required, optional)(tree, "mechanism")
    del given["name"]
    return build(k, **given)


# --- queries: every rule that a signed query must obey


def _bounds(check):
    def checked(value, name):
        found = _list(check, 2, 2)(value, name)
        return found if found[0] <= found[1] else _refuse(name, found)

    return checked


def _schedule(value, name):
    given = _shape("origin:time expires:time every:span window:span slide:span")(value, name)
    origin, expires, every, window, slide = (given[each] for each in _SCHEDULE.split())
    given["epochs"] = (expires - origin) // every
    good = window % every == 0 and slide % every == 0 and slide <= window
    if not good or expires < origin + window or given["epochs"] > 1 << 32:
        _refuse(name)
    return given


_SCHEDULE = "origin expires every window slide"
_TYPES.update(schedule=_schedule, bounds=_bounds(_TYPES["part"]), coins=_bounds(_TYPES["loss"]))
_TYPES.update(
    columns=_list(Column, 1),
    permission=_shape(
        "owner:key channel:line guest:key end:time messages:messages grace:pause signature:signature"
    ),
    envelope=_shape(
        "controller:key sampling:bounds epsilon_per_answer:loss p:bounds? q:bounds? epsilon:coins? "
        "inversion:flag until:time? versions:versions",
        "allocation:neyman",
    ),
    budget=_shape(
        "epsilon:loss? error:within?",
        "epsilon_per_answer:loss sampled:loss sampled_per_answer:loss zero_knowledge:loss "
        "zero_knowledge_per_answer:loss relative_error:part proportion:part latency:span "
        "answers_per_second:rate bytes_per_day:rate money_per_month:rate",
    ),
    strata=_list(_shape("name:stratum sampling:part? population:count?"), 0, 1 << 16),
    instantaneous=_shape("p:within q:within"),
    parts=_list(_TYPES["part"]),
    change=_shape("", "p:loss q:loss epsilon:loss inverted:flag"),
)
_HEADER = (
    "format:format id:id serial:serial analyst:line schedule:schedule size_class:class "
    "most_rows:messages channel:line?"
)
_HEADER_TOO = "grace:grace channel_owner:key permission:permission"
_QUERY = _shape(
    _HEADER + " question:question sql:sql columns:columns proxies:proxies mechanism:any "
    "sampling:part strata:strata population:count? minimum_cohort:count budget:budget rows:rows "
    "memoize:flag cover:flag",
    _HEADER_TOO + " distinct:many ones:many envelope:envelope instantaneous:instantaneous ask:ask "
    "value:value once:true public_results:true",
)
_VERSION = _shape(
    "format:version query:key serial:serial sampling:part mechanism:change strata:parts?"
)


def _within(value, bounds):
    return bounds is not None and bounds[0] <= value <= bounds[1]


def _sha(separator, content):
    return hashlib.sha256(separator.encode() + b"\0" + content).digest()


class Header:
    """What anyone may know who only carries a query's shares: whose it is, when, which channel."""

    def __init__(self, content):
        self.content, self.tree = content, read_canonical(content)
        self.header = _shape(_HEADER, _HEADER_TOO, True)(self.tree, "query")
        owner, permission = self.header.get("channel_owner"), self.header.get("permission")
        if self.header["format"].endswith("2") != (owner is not None):
            _refuse("format")
        if (owner and self.header["channel"] is None) or (
            permission and permission["owner"] != owner
        ):
            _refuse("channel_owner", owner)
        self.digest = _sha("deniable query 1", content.encode())
        self.name = canonical([self.header["analyst"], self.header["id"]])

    def channel_tag(self):
        """What proxies see in place of the query: 8 bytes."""
        header, schedule = self.header, self.header["schedule"]
        name, owner = header["channel"], header.get("channel_owner")
        named = {
            "name": header["analyst"] + "/" + header["id"] if name is None else name,
            "size_class": header["size_class"],
            **{each: schedule[each] for each in ("origin", "every")},
            **({"owner": owner} if owner else {}),
        }
        return _sha("deniable channel %d" % (2 if owner else 1), canonical(named).encode())[:8]

    def end_of(self, epoch):
        """The first second after an epoch."""
        return self.header["schedule"]["origin"] + (epoch + 1) * self.header["schedule"]["every"]


class Query(Header):
    """A whole query: what a device is asked, and what protects its owner."""

    def __init__(self, content):
        super().__init__(content)
        self.given = given = _QUERY(self.tree, "query")
        self.buckets = buckets = Buckets(given["columns"])
        self.ones, self.distinct = given.get("ones", 1), given.get("distinct", 1)
        self.most_rows, self.memoize = given["most_rows"], given["memoize"]
        _different("proxies", given["proxies"])
        _different("strata", [stratum["name"] for stratum in given["strata"]])
        self._check_asking()
        if len(given["sql"].encode()) > 8192 or (self.most_rows > 1) != (
            given["rows"] == "several"
        ):
            _refuse("most_rows", self.most_rows)
        step = given.get("instantaneous")
        self.mechanism = made = mechanism(given["mechanism"], buckets.size)
        if not made.unary and (step or not buckets.complete):
            _refuse("mechanism")
        if (step and not self.memoize) or (64 << given["size_class"]) - 56 < made.bytes:
            _refuse("size_class", given["size_class"])
        if step:
            p, q = (_nearest(fractions.Fraction(step[each])) for each in "pq")
            made.two_steps(buckets.size, p, q, _second_ratio(made.a, made.b, p, q))
        report = loss(made.ratio, self.ones)
        several = made.unary and given["rows"] != "several" and self.ones <= buckets.size
        needed = given["rows"] == "all" or any(column.overlapping for column in buckets.columns)
        if (not several or report > 1000) if self.ones > 1 else needed:
            _refuse("ones", self.ones)
        most = buckets.size + (not buckets.complete)
        if self.distinct > 1 and (not self.memoize or (self.ones == 1 and self.distinct > most)):
            _refuse("distinct", self.distinct)
        charged = report
        if self.memoize and made.lifetime_ratio:
            charged = loss(made.lifetime_ratio, self.ones)
        self.row_cost = _exact(charged)
        self.cost = self.row_cost * self.most_rows * self.distinct
        life = fractions.Fraction(charged) * self.most_rows * self.distinct
        self._check_budget(fractions.Fraction(report) * self.most_rows, life if step else 0)

    def _check_asking(self):
        given, columns = self.given, self.given["columns"]
        ask, value, rows = given.get("ask"), given.get("value"), given["rows"]
        if (given["sql"] == "") != (ask is not None) or (value is not None) != (ask == "value"):
            _refuse("ask", ask)
        if ask == "form":
            self._check_form(columns)
        elif any(column.question or column.labels for column in columns):
            _refuse("ask", ask)
        names = [value, *(column.name for column in columns)]
        if ask == "value" and not all(re.fullmatch(_NAME, name) for name in names):
            _refuse("value", value)
        if (ask == "form" and rows == "several") or ("once" in given and self.memoize):
            _refuse("rows", rows)

    @staticmethod
    def _check_form(columns):
        known, length = set(columns[0].question or ()), 0
        for c in columns:
            same = c.question and c.labels and set(c.question) == set(c.labels) == known
            if not same or c.overlapping or any(b.choice is None for b in c.buckets):
                _refuse(c.name)
            for labels in c.labels.values():
                if len(labels) != c.size:
                    _refuse(c.name)
                _different(c.name, labels)
            length += sum(map(len, c.question.values())) + sum(
                len(label) for labels in c.labels.values() for label in labels
            )
        if length > 100_000:
            _refuse("columns", length)

    def _check_budget(self, local, life):
        given, budget, recipe = self.given, self.given["budget"], self.given["mechanism"]
        if "relative_error" in budget and (
            budget["error"] is not None or "proportion" not in budget
        ):
            _refuse("budget.relative_error")
        if budget["epsilon"] is not None and max(local, life) > fractions.Fraction(
            budget["epsilon"]
        ):
            _refuse("budget.epsilon", budget["epsilon"])
        envelope = given.get("envelope")
        if not envelope:
            return
        samplings = [given["sampling"], *(s["sampling"] for s in given["strata"])]
        inside = budget["epsilon"] is not None and all(
            each is None or _within(each, envelope["sampling"]) for each in samplings
        )
        inside = inside and not (envelope["inversion"] and recipe["name"] != "TwoCoin")
        for name in ("p", "q", "epsilon"):
            bounds = envelope[name]
            if name in recipe:
                fixed = bounds is None or bounds[0] == bounds[1] or not self.memoize
                inside = inside and _within(recipe[name], bounds) and fixed
            else:
                inside = inside and bounds is None
        if not inside or local > fractions.Fraction(envelope["epsilon_per_answer"]):
            _refuse("envelope")

    def scope(self):
        """The question and its mechanism, to which permanent answers belong."""
        named = [self.tree[name] for name in ("analyst", "id", "sql", "columns", "mechanism")]
        named += [self.ones] if self.ones > 1 else []
        if "ask" in self.given:
            named += [self.given["ask"], self.given.get("value")]
        return canonical(named).encode()


# --- signed queries: the signature is verified over the bytes as received, and only then are they parsed


def key_id(public):
    """The id of a public key."""
    return _sha("deniable key 1", bytes.fromhex(public)).hex()[:16]


class Ring:
    """The keys a device trusts."""

    def __init__(self, keys):
        self.keys = {key_id(each["public"]): each for each in keys}

    def trusted(self, key, now):
        """The key with this id, if it is trusted now."""
        found = self.keys.get(key)
        if found is None:
            raise Refusal("unknown key", "key %s is not on the ring" % key)
        if found["revoked"]:
            raise Refusal("revoked key", "key %s was revoked" % key)
        if not found["valid_from"] <= now < found["valid_until"]:
            raise Refusal("key not valid", "key %s is not valid now" % key)
        return found

    def check_delegate(self, key, now):
        """Refuse a key that is on the ring and not trusted now."""
        if key in self.keys:
            self.trusted(key, now)


def _signed(public, signature, separator, content):
    try:
        given = bytes.fromhex(signature)
    except ValueError:
        return False
    return verify(bytes.fromhex(public), given, separator.encode() + b"\0" + content.encode())


def _readable(make, *given, reason="unusable query"):
    try:
        return make(*given)
    except _Form as problem:
        raise Refusal(reason, str(problem)) from None


def _parse_signed(text):
    try:
        fields = json.loads(text) if len(text) <= 1 << 21 else None
        good = isinstance(fields, dict) and all(isinstance(v, str) for v in fields.values())
        names = {"format", "key", "query", "signature"}
        good = good and set(fields) - {"version", "version_signature"} == names
        good = good and len(fields) in (4, 6) and fields["format"] == "deniable signed query 1"
        good = good and re.fullmatch("[0-9a-f]{16}", fields["key"])
        for each in fields.values() if good else ():
            each.encode()
    except (ValueError, RecursionError):
        good = False
    if not good:
        raise Refusal("unusable query", "it is not a signed query")
    for name in ("signature", "version_signature"):
        digits = re.sub("[ \t\n\v\f\r]", "", fields.get(name, ""))
        if not re.fullmatch("([0-9a-fA-F]{2})*", digits):
            raise Refusal("bad signature", "the signature is not written in hexadecimal digits")
        fields[name] = digits
    return fields


def _check_channel(header, key, ring, now):
    given, permission = header.header, header.header.get("permission")
    if not permission:
        owner, held = given.get("channel_owner"), ring.keys.values()
        mine = {each["public"] for each in held if each["owner"] == given["analyst"]}
        if owner and owner not in mine | {key["public"]}:
            raise Refusal("foreign channel", "its channel belongs to another key")
        return []
    terms = {name: value for name, value in permission.items() if name != "signature"}
    permitted = (
        _signed(
            terms["owner"],
            permission["signature"],
            "deniable channel permission 1",
            canonical(terms),
        )
        and terms["channel"] == given["channel"]
        and terms["guest"] == key["public"]
        and given["most_rows"] <= terms["messages"]
        and given.get("grace", 0) <= terms["grace"]
        and given["schedule"]["expires"] <= terms["end"]
    )
    if not permitted:
        raise Refusal("foreign channel", "the channel's owner does not permit this much of it")
    ring.check_delegate(key_id(terms["owner"]), now)
    return [key_id(terms["owner"])]


def _delegated(header, fields, ring, now):
    """The canonical text of the effective query, if a controller's version is inside the envelope."""
    tree, serial = header.tree, header.header["serial"]
    if tree.get("envelope") is None:
        raise Refusal("outside the envelope", "the query does not allow a controller to change it")
    envelope = _readable(_TYPES["envelope"], tree["envelope"], "envelope")
    key = key_id(envelope["controller"])
    ring.check_delegate(key, now)
    if envelope["until"] is not None and now >= envelope["until"]:
        raise Refusal("key not valid", "the controller's key is not valid any more")
    text = fields["version"]
    if not _signed(envelope["controller"], fields["version_signature"], "deniable version 1", text):
        raise Refusal("bad signature", "the version's signature is not the controller's")
    version = _readable(_VERSION, _readable(read_canonical, text), "version")
    coins = dict(version["mechanism"])
    inverted = coins.pop("inverted", False)
    strata = version["strata"]
    inside = version["query"] == header.digest.hex()
    inside = inside and serial < version["serial"] <= serial + envelope["versions"]
    samplings = [version["sampling"], *(strata or ())]
    inside = inside and all(_within(each, envelope["sampling"]) for each in samplings)
    inside = inside and (envelope["inversion"] or not inverted)
    inside = inside and all(_within(value, envelope[name]) for name, value in coins.items())
    if not inside:
        raise Refusal("outside the envelope", "the version is outside the envelope")
    recipe = {**tree["mechanism"], **version["mechanism"]}
    if not recipe.get("inverted"):
        recipe.pop("inverted", None)
    changes = {"serial": version["serial"], "sampling": version["sampling"], "mechanism": recipe}
    if strata is not None:
        if len(strata) != len(tree["strata"]):
            raise Refusal("unusable query", "the version has other strata")
        changes["strata"] = [{**s, "sampling": each} for s, each in zip(tree["strata"], strata)]
    return key, canonical({**tree, **changes})


def authenticate(ring, text, now):
    """The query, if its signatures, keys and form are right; `keys` are those it depends on."""
    fields = _parse_signed(text)
    key = ring.trusted(fields["key"], now)
    if not _signed(key["public"], fields["signature"], "deniable query 1", fields["query"]):
        raise Refusal("bad signature", "it is not signed by key %s" % fields["key"])
    header = _readable(Header, fields["query"])
    if header.header["analyst"] != key["owner"]:
        raise Refusal("bad signature", "key %s belongs to %s" % (fields["key"], key["owner"]))
    keys = [fields["key"], *_check_channel(header, key, ring, now)]
    content, reason = fields["query"], "unusable query"
    if "version" in fields:
        controller, content = _delegated(header, fields, ring, now)
        keys.append(controller)
        reason = "outside the envelope"
    query = _readable(Query, content, reason=reason)
    query.keys, query.signed = keys, text
    return query


# --- what a device keeps: one document, stored as a whole or not at all

_DAY = 86400


def fresh_state(born):
    """A new device's state; epochs that began before `born` may have been answered by an earlier one."""
    return {
        **{name: {} for name in ("versions", "decided", "revoked", "tokens", "reserves")},
        **{name: {} for name in ("answers", "backoff", "forms", "agreed")},
        **{name: [] for name in ("charges", "memo", "queue", "receipts", "declined")},
        "secret": os.urandom(32).hex(),
        "born": born,
        "next": 1,
        "clock": 0,
        "poll_at": 0,
        "busy": 0,
    }


def _keep_receipt(state, receipt):
    """Keep a receipt; a repeated refusal of one version is one receipt with a count."""
    same = ("analyst", "query", "serial", "reason", "outcome")
    for last in reversed(state["receipts"]):
        if (last["analyst"], last["query"]) == (receipt["analyst"], receipt["query"]):
            if receipt["outcome"] == "refused" and all(last[n] == receipt[n] for n in same):
                receipt["times"] = last["times"] + 1
                state["receipts"].remove(last)
            break
    state["receipts"] = (state["receipts"] + [receipt])[-500:]


def _receipt(now, outcome, **more):
    known = {"reason": "", "detail": "", "analyst": "", "query": "", "serial": 0, "epoch": None}
    return {"time": now, "outcome": outcome, "epsilon": 0.0, "times": 1, **known, **more}


def _drop_expired(state, now):
    """Drop shares that are too old, and give back the charges of answers that never left."""
    unsent = {}
    for share in state["queue"]:
        if share["expires"] <= now and share["answer"] is not None and not share["tried"]:
            unsent.setdefault(str(share["answer"]), set()).add(share["message"])
    for place, messages in unsent.items():
        answer = state["answers"].get(place)
        if not answer or len(messages) < answer["messages"]:
            continue
        for charge in [each for each in state["charges"] if each["place"] == answer["charge"]]:
            state["charges"].remove(charge)
            about = {name: charge[name] for name in ("analyst", "query")}
            about.update(serial=answer["serial"], epoch=answer["epoch"])
            epsilon = -float(fractions.Fraction(charge["epsilon"]))
            _keep_receipt(state, _receipt(now, "given back", epsilon=epsilon, **about))
    state["queue"] = [share for share in state["queue"] if share["expires"] > now]
    waiting = {str(share["answer"]) for share in state["queue"]}
    state["answers"] = {key: each for key, each in state["answers"].items() if key in waiting}


class Policy:
    """The owner's settings: who may ask, through whom, and what answers may cost."""

    DEFAULTS = {
        "analysts": None,
        "refused": [],
        "epsilon_per_answer": 3,
        "limits": [
            {"epsilon": 10, "period": 30 * _DAY, "each_analyst": True},
            {"epsilon": 30, "period": 30 * _DAY},
        ],
        "strata": [],
        "queue_messages": 1000,
        "queue_age": 14 * _DAY,
        "upload_within": 600,
        "clock_tolerance": 300,
        "deadline": 1,
        "slot": None,
    }

    def __init__(self, settings, proxies):
        unknown = set(settings) - set(self.DEFAULTS)
        if unknown:
            raise ValueError("policy.%s is not a setting" % sorted(unknown)[0])
        self.__dict__.update(self.DEFAULTS, **settings)
        self.proxies, self.ceiling = list(proxies), _exact(self.epsilon_per_answer)
        if self.slot is None:
            self.slot = math.ceil(3 * self.deadline) + 6 if self.upload_within else 0

    def stratum(self, query):
        """The person's stratum of the query, if it may be answered at all."""
        analyst, parts = query.given["analyst"], query.given["strata"]
        if analyst in self.refused:
            raise Refusal("analyst refused", "you have refused %s" % analyst)
        if self.analysts is not None and analyst not in self.analysts:
            raise Refusal("analyst not allowed", "%s is not allowed to ask" % analyst)
        if set(query.given["proxies"]) - set(self.proxies):
            raise Refusal("proxy not allowed", "it would send a share to a proxy you do not allow")
        mine = [i for i, each in enumerate(parts) if each["name"] in self.strata]
        if parts and not mine:
            raise Refusal("not in a stratum", "you belong to none of the strata it asks")
        if query.cost > self.ceiling:
            raise Refusal("over the ceiling", "an answer would cost more than your ceiling")
        return mine[0] if mine else 0

    def counted(self, limit, charges, analyst, now):
        """What counts against a limit if this analyst asks now."""
        period, named, each = (limit.get(name) for name in ("period", "analyst", "each_analyst"))
        return sum(
            fractions.Fraction(charge["epsilon"])
            for charge in charges
            if (period is None or charge["time"] > now - period)
            and (charge["analyst"] == analyst if each else named in (None, charge["analyst"]))
        )


def _payment(state, policy, query, scope, now):
    """The cost of an answer, and a function that charges it: decided before the data are read."""
    analyst, name, own = (query.given[each] for each in ("analyst", "id", "budget"))
    total, before, slots = query.cost, 0, {}
    charges = state["charges"]
    others = [each for each in charges if scope is None or each["scope"] != scope]
    if scope is not None:
        before = sum(fractions.Fraction(c["epsilon"]) for c in charges if c["scope"] == scope)
        slots = dict(state["reserves"].get(scope, {}))
        for slot in map(str, range(query.most_rows)):
            slots[slot] = max(query.distinct, slots.get(slot, 0))
        total = query.row_cost * sum(slots.values())
    cost = total - before
    due = cost > 0 or query.distinct > 1
    if due:
        mine = (c for c in charges if (c["analyst"], c["query"]) == (analyst, name))
        spent = sum(fractions.Fraction(c["epsilon"]) for c in mine)
        if own["epsilon"] is not None and spent + cost > _exact(own["epsilon"]):
            raise Refusal("budget", "the query's own budget is used up")
        for limit in policy.limits:
            if limit.get("analyst") not in (None, analyst):
                continue
            if policy.counted(limit, others, analyst, now) + total > _exact(limit["epsilon"]):
                raise Refusal("budget", "your limit of %s would be exceeded" % limit["epsilon"])

    def charge():
        if not due:
            return None
        if scope is not None:
            state["charges"], state["reserves"][scope] = others, slots
        place, state["next"] = state["next"], state["next"] + 1
        state["charges"].append(
            {
                "place": place,
                "time": now,
                "analyst": analyst,
                "query": name,
                "epsilon": str(total),
                "scope": scope,
            }
        )
        return place if scope is None else None

    return cost, charge


# --- messages and shares


def message(size_class, kind, stratum, epoch, query_tag, report, key):
    """A message, which is never sent as it is."""
    head = struct.pack("<BBHI", 1, kind, stratum, epoch) + query_tag
    body = (head + report).ljust((64 << size_class) - 40, b"\0")
    return body + key + siphash(key, body)


def _xor(parts):
    total = 0
    for part in parts:
        total ^= int.from_bytes(part, "little")
    return total.to_bytes(len(parts[0]), "little")


def split(size_class, stratum, epoch, query_tag, channel_tag, report, n, words):
    """A message of a report, or of nothing, and its share record for each of n proxies."""
    identity, key = words.bytes(16), words.bytes(16)
    kind = int(report is None)
    content = message(size_class, kind, stratum, epoch, query_tag, report or b"", key)
    pads = [words.bytes(len(content)) for _ in range(n - 1)]
    head = struct.pack("<BBBBI", 1, 0x53, size_class, 0, epoch) + channel_tag + identity
    return identity, content, [head + each for each in (*pads, _xor([content, *pads]))]


# --- the walk of one answer: all that a device does depends on the query, the policy, the clock and coins
# alone, and only the report on the data


class _Scope:
    """The keyed hash of a memoized question."""

    def __init__(self, state, query):
        self._key, self._scope = bytes.fromhex(state["secret"]), query.scope()
        self.id = self.of(b"").hex()

    def of(self, content):
        return hashlib.blake2b(self._scope + content, digest_size=32, key=self._key).digest()

    def ranked(self, found, most):
        """The first `most` of these answers in the order of their hashes."""
        twins, ranks = {}, []
        for v in found:
            place = struct.pack("<qQ", v, twins.get(v, 0))
            ranks.append((self.of(b"row" + place), v))
            twins[v] = twins.get(v, 0) + 1
        return [v for _, v in sorted(ranks)[:most]]


def _truth(query, rows, scope, words):
    """The true answers, always `most_rows` of them, each a list of `ones` buckets."""
    buckets, most, ones, how = query.buckets, query.most_rows, query.ones, query.given["rows"]
    nothing = buckets.size - 1 if buckets.complete else -1
    rows = [] if how == "aggregate" and len(rows) > 1 else rows
    if ones == 1:
        if scope:
            found = scope.ranked([buckets.index(row) for row in rows], most)
        else:
            found = [buckets.index(rows[i]) for i in words.some(len(rows), most)]
        return [[nothing if v < 0 else v] for v in (found + [-1] * most)[:most]]
    if how != "all" and len(rows) > 1:
        if scope:
            firsts = {buckets.index(row): row for row in reversed(rows)}
            rows = [firsts[v] for v in scope.ranked(sorted(firsts), 1)]
        else:
            rows = [rows[words.below(len(rows))]]
    inside = sorted({v for row in rows for v in buckets.indices(row)})
    if scope:
        found = scope.ranked(inside, ones)
    else:
        found = [inside[i] for i in words.some(len(inside), ones)]
    return [(sorted(found or [nothing]) + [-1] * ones)[:ones]]


def _memoized(state, query, scope, sets, epoch, words):
    """Reports made from permanent answers, which are drawn where a slot may have another."""
    made, kept = query.mechanism, []
    names = [scope.of(struct.pack("<%dq" % len(each), *each)).hex() for each in sets]
    for slot, name in enumerate(names):
        mine = [e for e in state["memo"] if (e["scope"], e["slot"]) == (scope.id, slot)]
        found = next((entry for entry in mine if entry["name"] == name), None)
        if found is None and len(mine) >= query.distinct:
            found = max(enumerate(mine), key=lambda pair: (pair[1]["spoke"], pair[0]))[1]
        kept.append(found)
    fresh = [slot for slot, entry in enumerate(kept) if entry is None]
    drawn = (made.permanent or made.draw)([sets[slot] for slot in fresh], words)
    for slot, row in zip(fresh, drawn):
        named = {"scope": scope.id, "slot": slot, "name": names[slot]}
        kept[slot] = {**named, "row": row.hex(), "spoke": 0}
        state["memo"].append(kept[slot])
    for entry in kept:
        entry["spoke"] = epoch
    rows = [bytes.fromhex(entry["row"]) for entry in kept]
    return made.replay(rows, words) if made.replay else rows


def _current_epoch(state, policy, query, now, skew):
    schedule = query.given["schedule"]
    epoch = (now - schedule["origin"]) // schedule["every"]
    if not 0 <= epoch < schedule["epochs"]:
        raise _Stop("waiting", "the query has not begun, or its last epoch has passed")
    known = state["decided"].get(query.name)
    if known and (known["once"] or epoch <= known["before"] or epoch in known["epochs"]):
        raise _Stop("again", "epoch %d is already decided" % epoch)
    if state["born"] is not None and query.end_of(epoch - 1) <= state["born"]:
        raise _Stop("waiting", "this device is newer than the epoch")
    if skew is not None and abs(skew) > policy.clock_tolerance:
        raise Refusal("clock", "your clock differs from that of every proxy that answered")
    return epoch


def _decide(state, query, epoch, once=False):
    known = state["decided"].setdefault(query.name, {"before": -1, "epochs": [], "once": False})
    known["epochs"] = sorted([*known["epochs"], epoch])
    known["once"] = known["once"] or once
    if len(known["epochs"]) > 1000:
        known["before"] = known["epochs"].pop(0)


def _answer_epoch(state, policy, query, stratum, epoch, now, source, words, out):
    given, n = query.given, len(query.given["proxies"])
    _drop_expired(state, now)
    if len(state["queue"]) + query.most_rows * n > policy.queue_messages * n:
        _decide(state, query, epoch)  # so that each lost epoch is counted once
        raise Refusal("queue full", "too many messages are already waiting for their proxies")
    scope = _Scope(state, query) if query.memoize else None
    cost, charge = _payment(state, policy, query, scope and scope.id, now)
    if isinstance(source, Refusal):
        _decide(state, query, epoch)
        raise source
    end, ready = query.end_of(epoch), now + policy.slot
    due = ready + words.below(max(1, min(policy.upload_within, end - ready)))
    _decide(state, query, epoch, "once" in given)
    sampling = given["sampling"]
    if given["strata"] and given["strata"][stratum]["sampling"] is not None:
        sampling = given["strata"][stratum]["sampling"]
    chosen = words.coin(math.floor(fractions.Fraction(sampling) * ONE))
    reports, place = [None] * query.most_rows, None
    if chosen:
        sets = _truth(query, source, scope, words)
        place = charge()
        if scope:
            reports = _memoized(state, query, scope, sets, epoch, words)
        else:
            reports = query.mechanism.draw(sets, words)
        out.update(cost=str(cost), reports=reports)
    if chosen or given["cover"]:
        out["due"] = due
        keeps = min(policy.queue_age, given.get("grace", _LATEST))
        _enqueue(state, query, stratum, epoch, due, end + keeps, reports, place, words, out)
    if not chosen:
        raise _Stop("sampled out", "the sampling coin said no")
    return cost


def _enqueue(state, query, stratum, epoch, due, expires, reports, charge, words, out):
    proxies, answer = query.given["proxies"], None
    if charge is not None:
        answer, state["next"] = state["next"], state["next"] + 1
        about = {"charge": charge, "serial": query.given["serial"], "epoch": epoch}
        state["answers"][str(answer)] = {**about, "messages": len(reports)}
    where = (query.given["size_class"], stratum, epoch, query.digest[:8], query.channel_tag())
    made = [split(*where, report, len(proxies), words) for report in reports]
    out["messages"] = [content for _, content, _ in made]
    out["shares"] = {proxy: [each[2][i] for each in made] for i, proxy in enumerate(proxies)}
    for identity, _, records in made:
        for proxy, record in zip(proxies, records):
            place, state["next"] = state["next"], state["next"] + 1
            share = {"place": place, "proxy": proxy, "due": due, "expires": expires}
            share.update(record=record.hex(), message=identity.hex(), answer=answer, tried=False)
            state["queue"].append({**share, "query": query.name})


def answer(state, ring, policy, text, now, words, source_of, skew=None):
    """Answer a signed query for the current epoch, if all checks pass: its receipt, and what was drawn."""
    receipt, out = _receipt(now, "answered"), {"outcome": "answered"}
    try:
        query = authenticate(ring, text, now)
        given = query.given
        receipt.update(analyst=given["analyst"], query=given["id"], serial=given["serial"])
        _accept(state, query, now)
        stratum = policy.stratum(query)
        if query.buckets.positions * _LONGEST_TEXT * query.most_rows > 1 << 24:
            raise Refusal("patterns", "its patterns take too many steps")
        out["epoch"] = receipt["epoch"] = _current_epoch(state, policy, query, now, skew)
        source = source_of(query)
        if source is None:
            raise _Stop("waiting", "nobody has filled in the form yet")
        epoch = out["epoch"]
        cost = _answer_epoch(state, policy, query, stratum, epoch, now, source, words, out)
        receipt["epsilon"] = float(cost)
    except Refusal as refusal:
        receipt.update(outcome="refused", reason=refusal.reason, detail=str(refusal))
    except _Stop as stop:
        receipt.update(outcome=stop.args[0], detail=stop.args[1])
    if receipt["outcome"] != "answered":
        out.update(outcome=receipt["outcome"], reason=receipt["reason"])
    if receipt["outcome"] not in ("again", "waiting"):
        _keep_receipt(state, receipt)
    return receipt, out


def _accept(state, query, now):
    revoked = {key for keys in state["revoked"].values() for key in keys}
    if revoked & set(query.keys):
        raise Refusal("revoked key", "a proxy says that its key was revoked")
    serial, digest = query.given["serial"], query.digest.hex()
    if now >= query.given["schedule"]["expires"]:
        raise Refusal("expired query", "it has expired")
    seen = state["versions"].get(query.name)
    if seen and (
        serial < seen["serial"] or (serial == seen["serial"] and digest != seen["digest"])
    ):
        raise Refusal("rolled-back query", "serial %d was already seen" % seen["serial"])
    state["versions"][query.name] = {"serial": serial, "digest": digest, "signed": query.signed}


# --- storage: an SQLite file, opened for each change and closed, so that forks and two processes are safe


class Store:
    """What a device keeps, in a file that only its owner can read."""

    def __init__(self, path):
        self.path = path

    def exists(self):
        """Whether anything is kept: it is not before a person was asked."""
        return os.path.exists(self.path)

    def change(self, work, now=0):
        """What `work(db, state)` gives; what it changed is kept as a whole, or not at all."""
        folder = os.path.dirname(self.path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        db = sqlite3.connect(self.path, timeout=1, isolation_level=None)
        try:
            db.execute("BEGIN IMMEDIATE")
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version > 1:
                raise ValueError("%s was written by a newer release" % self.path)
            if version == 0:
                db.execute("CREATE TABLE recorded (name TEXT, time INTEGER, row TEXT)")
                db.execute("CREATE TABLE state (document TEXT, is_on INTEGER, wake INTEGER)")
                db.execute("INSERT INTO state VALUES (?, NULL, 0)", [json.dumps(fresh_state(now))])
                db.execute("PRAGMA user_version = 1")
            before = db.execute("SELECT document FROM state").fetchone()[0]
            state = json.loads(before)
            result = work(db, state)
            after = json.dumps(state)
            if after != before:
                db.execute("UPDATE state SET document = ?", [after])
            db.execute("COMMIT")
            return result
        finally:
            db.close()  # rolls back what was not committed

    def record(self, rows, keep):
        """Keep rows if the person said yes: (whether they did, when there is something to send)."""
        db = sqlite3.connect(self.path, timeout=1, isolation_level=None)
        try:
            is_on, wake = db.execute("SELECT is_on, wake FROM state").fetchone()
            if rows and is_on:
                db.execute("BEGIN IMMEDIATE")
                for name, now, row, only in rows:
                    if only:
                        db.execute("DELETE FROM recorded WHERE name = ?", [name])
                    db.execute("INSERT INTO recorded VALUES (?, ?, ?)", [name, now, row])
                    db.execute(
                        "DELETE FROM recorded WHERE name = ? AND time <= ?",
                        [name, now - keep(name)],
                    )
                db.execute("COMMIT")
            return bool(is_on), wake
        finally:
            db.close()

    def forget(self):
        """Delete everything that is kept."""
        for name in (self.path, self.path + "-journal"):
            if os.path.exists(name):
                os.remove(name)


# --- HTTP: a poll carries no token, nothing of a response is trusted, and every wait has an end

_ATTEMPT = 3.0  # seconds that a round may take in all


class ProxyError(Exception):
    """A proxy did not do what it was asked to."""

    def __init__(self, detail, status=0, retry_after=0):
        super().__init__(detail)
        self.status, self.retry_after = status, retry_after
        self.final, self.early = status in (400, 409, 410, 413, 415), status in (404, 422)


class Transport:
    """Requests to proxies, until a deadline."""

    def __init__(self, seconds=_ATTEMPT):
        self._end = time.monotonic() + seconds

    def _ask(self, address, path, body=None, headers=()):
        class NoRedirect(request.HTTPRedirectHandler):
            def redirect_request(self, *_):
                return None

        asked = request.Request(address.rstrip("/") + path, data=body)  # noqa: S310 - checked below
        if asked.type not in ("http", "https"):
            raise ProxyError("is not an address of the web")
        # the same for every device: a version would tell devices apart
        for name, value in (("User-Agent", "deniable"), *headers):
            asked.add_header(name, value)
        left = self._end - time.monotonic()
        if left <= 0:
            raise ProxyError("did not answer in time")
        try:
            with request.build_opener(NoRedirect).open(asked, timeout=left) as response:
                content = response.read((1 << 23) + 1)
                if len(content) > 1 << 23:
                    raise ProxyError("its response is too long")
                return content, response.headers
        except error.HTTPError as problem:
            after = problem.headers.get("Retry-After") or ""
            wait = int(after) if re.fullmatch("[0-9]{1,7}", after) else 0
            problem.close()
            raise ProxyError("answered %d" % problem.code, problem.code, wait) from None
        except (OSError, ValueError, import_module("http.client").HTTPException):
            raise ProxyError("cannot be reached") from None

    def poll(self, proxy, now):
        """The signed queries of a proxy, how far its clock is ahead, and the keys it says are revoked."""
        content, headers = self._ask(proxy, "/v1/queries")
        try:
            tree = json.loads(content)
            listed = tree if isinstance(tree, list) else tree["queries"]
            texts = [each if isinstance(each, str) else json.dumps(each) for each in listed[:1000]]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ProxyError("its list of queries cannot be read") from None
        try:
            skew = utils.parsedate_to_datetime(headers.get("Date")).timestamp() - now
        except (TypeError, ValueError):
            skew = None
        revoked = re.findall("(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])", headers["Revoked-Keys"] or "")
        return texts, skew, revoked[:1024]

    def enrol(self, proxy, body):
        """A token of a proxy."""
        headers = [("Content-Type", "application/json")]
        content, _ = self._ask(proxy, "/v1/enrol", json.dumps(body).encode(), headers)
        try:
            token = json.loads(content)["token"]
        except (ValueError, KeyError, TypeError):
            token = None
        if not isinstance(token, str) or not re.fullmatch("[ -~]{16,200}", token):
            raise ProxyError("its response contains no token")
        return token

    def send(self, proxy, token, body):
        """Upload share records of one size."""
        kind = ("Content-Type", "application/octet-stream")
        self._ask(proxy, "/v1/shares", body, [("Authorization", "Bearer " + token), kind])


def _together(work, items):
    """Run `work` on each item, all at once, and give what came of each; None for a failure."""
    found = dict.fromkeys(items)

    def run(item):
        try:
            found[item] = work(item)
        except ProxyError:
            pass

    threads = [threading.Thread(target=run, args=[item], daemon=True) for item in items]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_ATTEMPT)
    return dict(found)


def _backoff(failures, words):
    return 1 + words.below(min(6 * 3600, 30 << min(failures, 20)))


# --- consent, in words made from the signed query


def _says(value):
    return (value or "").strip().lower() not in ("", "0", "false", "no", "off")


def _span(seconds):
    for n, unit in ((7 * _DAY, "week"), (_DAY, "day"), (3600, "hour"), (60, "minute")):
        if seconds % n == 0:
            return unit if seconds == n else "%d %ss" % (seconds // n, unit)
    return "%d seconds" % seconds


def _date(seconds):
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def terms(query):
    """What a person agrees to: if any of it changes, they are asked again."""
    given, envelope = query.given, query.given.get("envelope")
    parts = ("analyst", "id", "question", "columns", "proxies", "rows", "most_rows", "memoize")
    named = {name: query.tree[name] for name in parts}
    named.update({name: given.get(name) for name in ("ask", "value", "once", "public_results")})
    named["cost"] = str(envelope["epsilon_per_answer"]) if envelope else str(query.cost)
    named["schedule"] = query.tree["schedule"]
    return _sha("deniable lite terms 1", canonical(named).encode()).hex()


def describe(query):
    """A question in words: what, how often, what one answer reveals, who gets it, until when."""
    given, schedule = query.given, query.given["schedule"]
    once, cost = "once" in given, float(query.cost)
    how = "Once" if once else "Once every " + _span(schedule["every"])
    labels = query.buckets.labels
    shown = ", ".join(labels[:12]) + (" and %d more" % (len(labels) - 12) if labels[12:] else "")
    life = cost if once or query.memoize else cost * schedule["epochs"]
    if given["budget"]["epsilon"] is not None:
        life = min(life, given["budget"]["epsilon"])
    readers = (
        "anyone may read the results" if "public_results" in given else "only they see results"
    )
    return [
        given["question"] or given["id"],
        "  possible answers: " + shown,
        "  %s, until %s, asked by %s (%s)."
        % (how, _date(schedule["expires"]), given["analyst"], readers),
        "  The answer is randomized here: what is sent changes anyone's odds about yours by at most "
        "a factor of %.2f (epsilon %.2f), and epsilon %.2f in all." % (math.exp(cost), cost, life),
        "  Sent in pieces that mean nothing alone, to " + " and ".join(given["proxies"]) + ".",
    ]


class Telemetry:
    """A tool's telemetry: off until the person says yes."""

    def __init__(self, tool, config, folder=None, environ=None, clock=time.time, background=True):
        self.tool, self._config, self._clock = tool, config, clock
        self._environ = os.environ if environ is None else environ
        self.store = Store(os.path.join(folder or self._folder(), "telemetry.sqlite"))
        self._pending, self._pid = [], os.getpid()
        self.new_transport, self.words = Transport, Words
        if background and not self.silenced():
            import_module("atexit").register(self._at_exit)

    def _folder(self):
        get, home = self._environ.get, os.path.expanduser("~")
        if os.name == "nt":
            base = get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        elif sys.platform == "darwin":
            base = os.path.join(home, "Library", "Application Support")
        else:
            base = get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
        return os.path.join(base, self.tool)

    @property
    def config(self):
        """The contents of telemetry.json."""
        if not isinstance(self._config, dict):
            with open(self._config, encoding="utf-8") as file:  # noqa: PTH123 - pathlib is not loaded
                self._config = json.load(file)
        return self._config

    def _proxies(self):
        return [{"address": p} if isinstance(p, str) else p for p in self.config["proxies"]]

    def _rules(self):
        addresses = [proxy["address"] for proxy in self._proxies()]
        return Ring(self.config["ring"]), Policy(self.config.get("policy", {}), addresses)

    def now(self):
        """Seconds since 1970."""
        return int(self._clock())

    def silenced(self):
        """The environment variable that keeps telemetry off, or an empty text."""
        for name in ("DO_NOT_TRACK", "CI"):
            if _says(self._environ.get(name)):
                return name
        own = self.tool.upper().replace("-", "_") + "_TELEMETRY"
        said = self._environ.get(own)
        return own if said is not None and not _says(said) else ""

    def is_on(self):
        """Whether the person said yes, and no environment variable says no."""
        try:
            return not self.silenced() and self.store.exists() and self.store.record([], int)[0]
        except Exception:  # noqa: BLE001 - what cannot be read is no yes
            return False

    # recording: in memory until the command ends, and then only if the person said yes

    def record(self, name, **row):
        """Keep one event under a name, for questions about it."""
        self._note(name, row, False)

    def set(self, name, **row):
        """Keep this row alone under a name: a state, such as the tool's version."""
        self._note(name, row, True)

    def _note(self, name, row, only):
        if self._pid != os.getpid():
            self._pending, self._pid = [], os.getpid()  # a fork: its parent keeps what it recorded
        for each in (name, *row):
            if not re.fullmatch(_NAME, each):
                raise ValueError("%s must be 1 to 63 of a-z, 0-9 and _" % each)
        if len(self._pending) < 10_000:
            self._pending.append((name, self.now(), row, only))

    def _keep(self, name):
        return self.config.get("values", {}).get(name, {}).get("keep", 30 * _DAY)

    def flush(self):
        """Store what was recorded: (whether telemetry is on, when there is something to send)."""
        pending, self._pending = self._pending, []
        if self._pid != os.getpid() or self.silenced() or not self.store.exists():
            return False, 0
        rows = [(name, now, json.dumps(row), only) for name, now, row, only in pending]
        return self.store.record(rows, self._keep)

    def _rows(self, db, state, query, now):
        """The rows of a query, or why there are none."""
        columns = [column.name for column in query.buckets.columns]
        if query.given.get("ask") == "form":
            rows = state["forms"].get(query.name)
            return rows and [[row.get(column) for column in columns] for row in rows]
        if query.given.get("ask") != "value":
            return Refusal("forbidden SQL", "this client keeps no tables")
        name = query.given["value"]
        how = self.config.get("values", {}).get(name)
        kept = db.execute("SELECT time, row FROM recorded WHERE name = ? ORDER BY rowid", [name])
        rows = [(when, json.loads(row)) for when, row in kept]
        if not rows and how is None:
            return Refusal("not shared", "nothing was recorded under %s" % name)
        rows = [each for each in rows if each[0] > now - self._keep(name)][-10_000:]
        if how and "count" in how:  # bounded: a device that did more says as much as the bound
            return [[min(len(rows), how["count"])]]
        return [[row.get(column) for column in columns] for _, row in rows]

    def fill(self, query_id, **row):
        """What a person chose in a form."""

        def work(db, state):
            for query in self._known(state, self.now()):
                if query.given["id"] == query_id and query.given.get("ask") == "form":
                    state["forms"][query.name] = [row]

        self.store.change(work, self.now())

    # consent

    def _known(self, state, now):
        """The newest valid version of each question: shipped with the tool, or polled."""
        ring, _ = self._rules()
        texts = [
            each if isinstance(each, str) else json.dumps(each) for each in self.config["queries"]
        ]
        found = {}
        for text in [
            *texts,
            *(seen["signed"] for seen in state["versions"].values()),
            *state.get("offers", []),
        ]:
            try:
                query = authenticate(ring, text, now)
                if now < query.given["schedule"]["expires"]:
                    found.setdefault(query.name, []).append(query)
            except Refusal:
                continue
        return [max(each, key=lambda query: query.given["serial"]) for each in found.values()]

    def questions(self):
        """The questions, as the device verified them."""
        now = self.now()
        if self.store.exists():
            return self.store.change(lambda db, state: self._known(state, now), now)
        return self._known(fresh_state(now), now)

    def ask(self, read=None, write=None):
        """Ask once, at a terminal, in words made from the signed questions; gives whether telemetry is on."""
        try:
            terminal = sys.stdin.isatty() and sys.stderr.isatty()
            if self.silenced() or not (read or terminal):
                return self.is_on()
            write = write or sys.stderr.write
            known = self.questions()
            state = self.store.change(lambda db, state: state, self.now())
            seen = set(state["agreed"]) | set(state["declined"])
            fresh = [query for query in known if terms(query) not in seen]
            said = self.store.change(
                lambda db, _: db.execute("SELECT is_on FROM state").fetchone()[0]
            )
            if not fresh or said == 0:
                return self.is_on()
            lines = ["%s asks whether it may learn from many users together:" % self.tool, ""]
            for query in fresh:
                lines += [*describe(query), ""]
            write(
                "\n".join([*lines, "Change this at any time with: %s telemetry on|off" % self.tool])
            )
            write("\nMay it send these randomized answers? [y/N] ")
            try:
                reply = (read or sys.stdin.readline)().strip().lower()
            except (KeyboardInterrupt, EOFError):
                reply = ""
            self._decide(fresh, reply in ("y", "yes"), bool(said))
            return self.is_on()
        except Exception:  # noqa: BLE001 - a home that cannot be written: nobody is asked, nothing is sent
            return False

    def _decide(self, queries, yes, before=False):
        def work(db, state):
            for query in queries:
                if yes:
                    state["agreed"][terms(query)] = self.now()
                elif terms(query) not in state["declined"]:
                    state["declined"].append(terms(query))
            db.execute("UPDATE state SET is_on = ?, wake = 0", [int(yes or before)])

        self.store.change(work, self.now())

    def on(self):
        """Say yes to all present questions."""
        self._decide(self.questions(), True)

    def off(self):
        """Say no: nothing more is recorded or sent, and what waits is dropped."""

        def work(db, state):
            state["queue"], state["agreed"] = [], {}
            db.execute("DELETE FROM recorded")
            db.execute("UPDATE state SET is_on = 0")

        self._pending = []
        self.store.change(work, self.now())

    # sending

    def _at_exit(self):
        try:
            is_on, wake = self.flush()
            if is_on and self.now() >= wake:
                self._send_in_background()
        except Exception:  # noqa: BLE001, S110 - a tool never fails, or speaks, because of its telemetry
            pass

    def _send_in_background(self):
        name = os.path.basename(sys.executable or "").lower()
        interpreter = name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
        if not (interpreter and os.path.isfile(__file__)):
            thread = threading.Thread(target=self.round, daemon=True)
            thread.start()
            thread.join(_ATTEMPT)
            return
        self.store.change(lambda db, state: state.update(config=self.config), self.now())
        code = (
            "import importlib.util as u,sys;s=u.spec_from_file_location('deniable_lite',sys.argv[1]);"
            "m=u.module_from_spec(s);s.loader.exec_module(m);m.send(*sys.argv[2:])"
        )
        folder = os.path.dirname(self.store.path)
        nowhere = subprocess.DEVNULL
        apart = {"start_new_session": True} if os.name == "posix" else {"creationflags": 0x00000208}
        child = subprocess.Popen(  # noqa: S603 - this file, by this interpreter
            [sys.executable, "-I", "-c", code, os.path.abspath(__file__), self.tool, folder],
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
            cwd=folder,
            **apart,
        )
        child.returncode = 0  # nobody waits for it, and no warning says so

    def round(self):
        """Poll, upload what is due, answer what was agreed to; silent, whatever happens."""
        try:
            if self.is_on() and self._claim():
                self._round(self.new_transport(), self.words())
        except Exception:  # noqa: BLE001, S110 - see `_at_exit`
            pass

    def _claim(self):
        now = self.now()

        def work(db, state):
            if now < state["busy"] <= now + 10:
                return False
            back = state["clock"] - now
            for share in state["queue"] if back > 0 else ():
                share["due"] -= back  # the clock was set back: what waits does not wait longer
            for each in state["backoff"].values() if back > 0 else ():
                each["retry_at"] -= back
            state["poll_at"] -= max(back, 0)
            state["busy"], state["clock"] = now + 5, now
            return True

        return self.store.change(work, now)

    def _round(self, transport, words):
        now, skew = self.now(), None
        ring, policy = self._rules()
        poll_at = self.store.change(lambda db, state: state["poll_at"])
        if now >= poll_at:
            skew = self._poll(transport, words, now)
        self._upload(transport, policy, words)

        def work(db, state):
            for i, query in enumerate(self._known(state, now)):
                if terms(query) not in state["agreed"]:
                    continue
                at = now + i * policy.slot
                source = lambda asked: self._rows(db, state, asked, now)  # noqa: E731
                receipt, _ = answer(state, ring, policy, query.signed, at, words, source, skew)
                if receipt["outcome"] in ("answered", "sampled out") and not query.memoize:
                    state["forms"].pop(query.name, None)

        self.store.change(work)
        if not policy.upload_within:
            self._upload(transport, policy, words)
        self.store.change(lambda db, state: self._sleep(db, state, now))

    def _sleep(self, db, state, now):
        """Note when there is something to do again: by schedules and drawn times alone."""
        times = [state["poll_at"]]
        for share in state["queue"]:
            times.append(
                max(share["due"], state["backoff"].get(share["proxy"], {}).get("retry_at", 0))
            )
        for query in self._known(state, now):
            schedule = query.given["schedule"]
            if terms(query) in state["agreed"]:
                epoch = max(-1, (now - schedule["origin"]) // schedule["every"])
                times.append(query.end_of(epoch))
        state["busy"] = 0
        db.execute("UPDATE state SET wake = ?", [min(times)])

    def _poll(self, transport, words, now):
        """Ask all proxies for queries: one alone could hold back a newer version."""
        addresses = [proxy["address"] for proxy in self._proxies()]
        found = {
            p: each
            for p, each in _together(lambda p: transport.poll(p, now), addresses).items()
            if each
        }
        offers = sorted(
            {text for texts, _, _ in found.values() for text in texts if len(text) <= 1 << 17}
        )

        def work(db, state):
            state["poll_at"] = now + _DAY // 2 + words.below(_DAY)
            state["revoked"].update({proxy: revoked for proxy, (_, _, revoked) in found.items()})
            if found:
                state["offers"] = offers[:100]

        self.store.change(work)
        # the smallest difference counts, so that one proxy with a wrong clock stops nobody
        return min(
            (skew for _, skew, _ in found.values() if skew is not None), key=abs, default=None
        )

    def _upload(self, transport, policy, words):
        now = self.now()

        def due(db, state):
            _drop_expired(state, now)
            ready = [s for s in state["queue"] if s["due"] <= now and s["proxy"] in policy.proxies]
            late = {p for p, each in state["backoff"].items() if each["retry_at"] > now}
            return sorted({share["proxy"] for share in ready} - late)

        _together(lambda proxy: self._deliver(transport, proxy, now, words), self.store.change(due))

    def _token(self, transport, proxy):
        known = next(each for each in self._proxies() if each["address"] == proxy)
        token = known.get("token") or self.store.change(
            lambda db, state: state["tokens"].get(proxy)
        )
        if not token:
            code = known.get("invitation")
            token = transport.enrol(proxy, {"invitation": code} if code else {})
            self.store.change(lambda db, state: state["tokens"].setdefault(proxy, token))
        return token

    def _deliver(self, transport, proxy, now, words):
        most = 256
        while True:

            def batch(db, state, most=most):
                ready = [s for s in state["queue"] if s["proxy"] == proxy and s["due"] <= now]
                ready = [s for s in ready if len(s["record"]) == len(ready[0]["record"])][:most]
                for share in ready:
                    share["tried"] = True  # stored before the first byte leaves
                return ready

            shares = self.store.change(batch)
            if not shares:
                return
            places = {share["place"] for share in shares}
            try:
                body = b"".join(bytes.fromhex(share["record"]) for share in shares)
                transport.send(proxy, self._token(transport, proxy), body)
                problem = None
            except ProxyError as found:
                problem = found
            about_a_share = problem and (problem.final or problem.early)
            if about_a_share and len(shares) > 1:
                most = 1  # find out which of them it is
                continue

            def note(db, state, places=places, problem=problem):
                mine = [share for share in state["queue"] if share["place"] in places]
                if problem is None or problem.final:
                    state["queue"] = [s for s in state["queue"] if s["place"] not in places]
                if problem is None:
                    state["backoff"].pop(proxy, None)
                elif problem.early:
                    for share in mine:
                        share["due"] = now + _backoff(5, words)
                elif not problem.final:
                    failures = state["backoff"].get(proxy, {}).get("failures", 0)
                    if problem.status == 401:
                        state["tokens"].pop(proxy, None)  # a device may enrol again
                    left = [s["expires"] - now for s in state["queue"] if s["proxy"] == proxy]
                    wait = min(_backoff(failures, words), max(30, min(left, default=60) // 2))
                    wait = max(wait, min(problem.retry_after, 6 * 3600))
                    state["backoff"][proxy] = {"failures": failures + 1, "retry_at": now + wait}

            self.store.change(note)
            if problem and not about_a_share:
                return

    # what a person can see and do

    def status(self):
        """Whether telemetry is on, and what it asks, in lines."""
        quiet = self.silenced()
        lines = [
            "Telemetry of %s is %s%s."
            % (self.tool, "on" if self.is_on() else "off", " (%s is set)" % quiet if quiet else "")
        ]
        state = (
            self.store.change(lambda db, state: state) if self.store.exists() else fresh_state(0)
        )
        for query in self.questions():
            agreed = "you agreed" if terms(query) in state["agreed"] else "not agreed to"
            lines += ["", "[%s]" % agreed, *describe(query)]
        return [
            *lines,
            "",
            "%d shares wait to be sent. File: %s" % (len(state["queue"]), self.store.path),
        ]

    def receipts(self):
        """What became of each question, in lines."""
        state = (
            self.store.change(lambda db, state: state) if self.store.exists() else fresh_state(0)
        )
        form = "%s  %-11s %s  epsilon %.3f  %s"
        return [
            form % (_date(r["time"]), r["outcome"], r["query"], r["epsilon"], r["reason"])
            for r in state["receipts"]
        ] or ["No question was answered yet."]

    def preview(self):
        """The very bytes that wait to be sent, or an example, and what they mean, in lines."""
        now, lines = self.now(), []
        ring, policy = self._rules()

        class Undo(Exception):  # noqa: N818
            pass

        def work(db, state):
            for query in self._known(state, now):
                waiting = [s for s in state["queue"] if s.get("query") == query.name]
                kind = "waits to be sent"
                if not waiting:
                    kind = "example, drawn now and thrown away"
                    trial = dict(copy.deepcopy(state), decided={}, born=None, queue=[])
                    trial["charges"] = []
                    source = lambda asked: self._rows(db, trial, asked, now)  # noqa: E731
                    receipt, _ = answer(
                        trial, ring, policy, query.signed, now, self.words(), source
                    )
                    waiting = trial["queue"]
                    if not waiting:
                        why = " ".join((receipt["reason"] or receipt["outcome"], receipt["detail"]))
                        lines.append("%s: nothing would be sent (%s)" % (query.given["id"], why))
                for share in waiting:
                    pieces = [s for s in waiting if s["message"] == share["message"]]
                    if share is pieces[0]:
                        lines.extend(self._explained(query, pieces, kind))
            raise Undo

        if not self.store.exists():
            return ["Nothing is recorded and nothing waits: telemetry was never on."]
        try:
            self.store.change(work)
        except Undo:
            pass
        return lines

    @staticmethod
    def _explained(query, pieces, kind):
        records = [bytes.fromhex(share["record"]) for share in pieces]
        lines = ["%s (%s)" % (query.given["id"], kind)]
        for share, record in zip(pieces, records):
            lines.append(
                "  POST %s/v1/shares  %d bytes" % (share["proxy"].rstrip("/"), len(record))
            )
            lines.append("    " + record.hex())
        if len(pieces) < len(query.given["proxies"]):
            return [*lines, "  the other pieces were sent: what is left is noise"]
        content = _xor([record[32:] for record in records])
        report = content[16 : 16 + query.mechanism.bytes]
        lines.append(
            "  together: epoch %d, query %s, report %s"
            % (int.from_bytes(content[4:8], "little"), content[8:16].hex(), report.hex())
        )
        if query.mechanism.unary and content[1] == 0:
            labels = query.buckets.labels
            said = [label for j, label in enumerate(labels) if report[j // 8] >> j % 8 & 1]
            lines.append(
                "  the randomized report says: " + (", ".join(said) or "none of the answers")
            )
        return lines

    def forget(self):
        """Delete everything that is kept here; the present epoch will not be answered again."""
        self._pending = []
        self.store.forget()

    def command(self, action, write=None):
        """What `tool telemetry ACTION` does; gives the exit code."""
        write = write or sys.stdout.write
        if action not in ACTIONS:
            raise ValueError("action = %s must be one of %s" % (action, ", ".join(ACTIONS)))
        try:
            lines = getattr(self, action)()
        except (OSError, sqlite3.Error) as problem:
            write("%s: your choice cannot be kept: %s\n" % (self.tool, problem))
            return 1
        if lines is None:
            lines = ["Everything was deleted."] if action == "forget" else self.status()
        write("\n".join(lines) + "\n")
        return 0


ACTIONS = {
    "on": "send randomized answers to the questions",
    "off": "send nothing, and delete what was recorded",
    "status": "show whether telemetry is on, and what is asked",
    "preview": "show the bytes that would be sent, and what they mean",
    "receipts": "show what was answered, and what it cost",
    "forget": "delete everything that is kept",
}


def send(tool, folder):
    """The background process: one round, and an end after 3 seconds whatever happens."""
    watch = threading.Timer(_ATTEMPT, os._exit, [0])
    watch.daemon = True
    watch.start()
    store = Store(os.path.join(folder, "telemetry.sqlite"))
    config = store.change(lambda db, state: state["config"])
    Telemetry(tool, config, folder, background=False).round()


def add_argparse(subparsers, telemetry):
    """Add `telemetry on|off|…` to an argparse tool; `args.run(args)` gives the exit code."""
    parser = subparsers.add_parser("telemetry", help="what this tool may learn from you")
    parser.add_argument(
        "action", choices=list(ACTIONS), help="; ".join(map(" - ".join, ACTIONS.items()))
    )
    parser.set_defaults(run=lambda args: telemetry.command(args.action))
    return parser


def click_group(telemetry):
    """The commands as a click group: `cli.add_command(click_group(telemetry))`."""
    click = import_module("click")
    group = click.Group("telemetry", help="What this tool may learn from you.")
    for action, text in ACTIONS.items():

        def run(action=action):
            if telemetry.command(action, lambda text: click.echo(text, nl=False)):
                raise SystemExit(1)

        group.add_command(click.Command(action, callback=run, help=text.capitalize() + "."))
    return group


def typer_app(telemetry):
    """The commands as a typer app: `app.add_typer(typer_app(telemetry), name="telemetry")`."""
    typer = import_module("typer")
    app = typer.Typer(help="What this tool may learn from you.")
    for action, text in ACTIONS.items():

        def run(action: str = typer.Option(action, hidden=True)):  # noqa: B008
            raise typer.Exit(telemetry.command(action))

        app.command(action, help=text.capitalize() + ".")(run)
    return app
