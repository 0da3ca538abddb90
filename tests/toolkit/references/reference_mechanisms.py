"""The draws, coins and reports of docs/wire.md, written from that page alone: integers and loops,
nothing of the library."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

ONE = 1 << 64


# --- draws


class Words:
    """The random bytes of a step, 8 at a time."""

    def __init__(self, script: bytes) -> None:
        self.script, self.at = script, 0

    def word(self) -> int:
        value = int.from_bytes(self.script[self.at : self.at + 8], "little")
        self.at += 8
        if self.at > len(self.script):
            raise EOFError("the random bytes are used up")
        return value

    def coin(self, threshold: int) -> int:
        return int(self.word() < threshold)

    def below(self, bound: int) -> int:
        while True:
            product = self.word() * bound
            if product % ONE >= ONE % bound:
                return product >> 64

    def pick(self, cumulative: list[int]) -> int:
        word = self.word()
        return sum(edge <= word for edge in cumulative)

    def subset(self, width: int, size: int) -> list[int]:
        bits: list[int] = []
        for place in range(width):
            bits.append(int(self.below(width - place) < size - sum(bits)))
        return bits

    def bytes(self, n: int) -> bytes:
        drawn = b"".join(self.word().to_bytes(8, "little") for _ in range(-(-n // 8)))
        return drawn[:n]


# --- numbers


def exp(x: Fraction) -> Fraction:
    """e^x to 60 digits."""
    with localcontext(Context(prec=60)):
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).exp())


def loss(ratio: Fraction, times: int = 1) -> Fraction:
    """ln(ratio), as often as `times` says, the smallest double not below it, as the decimal that a
    ledger adds."""
    with localcontext(Context(prec=90)):
        exact = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln() * times
        double = float(exact)
        return Fraction(
            repr(double if Decimal(double) >= exact else math.nextafter(double, math.inf))
        )


def up(p: Fraction) -> int:
    return min(math.ceil(p * ONE), ONE - 1)


def down(p: Fraction) -> int:
    return max(math.floor(p * ONE), 1)


def nearest(p: Fraction) -> int:
    return min(max(round(p * ONE), 1), ONE - 1)


def pack(bits: list[int]) -> bytes:
    out = bytearray(-(-len(bits) // 8))
    for j, bit in enumerate(bits):
        out[j // 8] |= bit << (j % 8)
    return bytes(out)


def number_bytes(outputs: int) -> int:
    return 1 if outputs <= 1 << 8 else 2 if outputs <= 1 << 16 else 4


# --- mechanisms: each gives its loss, the length of its report, and the reports of some true answer


class Unary:
    def __init__(self, k: int, a: int, b: int) -> None:
        self.k, self.a, self.b, self.length = k, a, b, -(-k // 8)
        self.ratio = Fraction(a * (ONE - b), b * (ONE - a))
        self.loss = loss(self.ratio)

    def draw(self, answers: list[int], words: Words) -> list[bytes]:
        return self.draw_sets([[answer] for answer in answers], words)

    def draw_sets(self, sets: list[list[int]], words: Words) -> list[bytes]:
        """Of answers in several buckets, each filled up with -1 to the same length."""
        rows = [[words.coin(self.b) for _ in range(self.k)] for _ in sets]
        for labels in zip(*sets, strict=True):
            for row, answer in zip(rows, labels, strict=True):
                coin = words.coin(self.a)
                if answer >= 0:
                    row[answer] = row[answer] ^ coin if self.a == ONE // 2 else coin
        return [pack(row) for row in rows]


class Direct:
    def __init__(self, k: int, epsilon: Fraction) -> None:
        growth = exp(epsilon)
        self.k, self.truthful, self.length = k, down(growth / (growth + k - 1)), number_bytes(k)
        ratio = Fraction(self.truthful * (k - 1), ONE - self.truthful)
        self.loss = loss(max(ratio, 1 / ratio))

    def draw(self, answers: list[int], words: Words) -> list[bytes]:
        honest = [words.coin(self.truthful) for _ in answers]
        others = [words.below(self.k - 1) for _ in answers]
        said = [
            v if truth else other + (other >= v)
            for v, truth, other in zip(answers, honest, others, strict=True)
        ]
        return [value.to_bytes(self.length, "little") for value in said]


class Subset:
    def __init__(self, k: int, epsilon: Fraction) -> None:
        growth = exp(epsilon)

        def variance(w: int) -> Fraction:
            a = w * growth / (w * growth + k - w)
            b = (w - a) / (k - 1)
            return k * b * (1 - b) / (a - b) ** 2 + (1 - a - b) / (a - b)

        near = math.floor(k / (growth + 1))
        self.k, self.w, self.length = (
            k,
            min((max(near, 1), min(near + 1, k - 1)), key=variance),
            -(-k // 8),
        )
        self.included = down(self.w * growth / (self.w * growth + k - self.w))
        ratio = Fraction(self.included * (k - self.w), (ONE - self.included) * self.w)
        self.loss = loss(max(ratio, 1 / ratio))

    def draw(self, answers: list[int], words: Words) -> list[bytes]:
        included = [words.coin(self.included) for _ in answers]
        rows: dict[int, list[int]] = {}
        for wanted in (1, 0):
            for i, coin in enumerate(included):
                if coin == wanted:
                    rows[i] = [*words.subset(self.k - 1, self.w - wanted), 0]
        for i, v in enumerate(answers):
            if v < self.k - 1:
                rows[i][self.k - 1] = rows[i][v]
            rows[i][v] = included[i]
        return [pack(rows[i]) for i in range(len(answers))]


class Hashing:
    MIXERS = (0x9E3779B97F4A7C15, 0x243F6A8885A308D3, 0xB7E151628AED2A6A)

    def __init__(self, k: int, epsilon: float, g: int | None) -> None:
        if g is None:
            growth = math.exp(epsilon)
            near = min(math.floor(growth + 1), 65_535)

            def variance(candidate: int) -> float:
                a, b = growth / (growth + candidate - 1), 1 / candidate
                return b * (1 - b) / (a - b) ** 2

            g = min((near, near + 1), key=variance)
        exact = exp(Fraction(epsilon))
        self.g, self.bits = g, 32 if k <= 1 << 16 else 64
        self.truthful = down(exact / (exact + g - 1))
        self.length = 2 * self.bits // 8 + number_bytes(g)
        ratio = Fraction(self.truthful * (g - 1), ONE - self.truthful)
        self.loss = loss(max(ratio, 1 / ratio))

    def bucket(self, alpha: int, beta: int, value: int) -> int:
        half = self.bits // 2
        code = value
        for digits in self.MIXERS:
            code = code * (digits >> (64 - half) | 1) % (1 << half)
            code ^= code >> (half // 2)
        top = (alpha * code + beta) % (1 << self.bits) >> (half - 1)
        return top * self.g >> (half + 1)

    def draw(self, answers: list[int], words: Words) -> list[bytes]:
        size = self.bits // 8
        seeds = words.bytes(2 * size * len(answers))
        pairs = [
            (
                int.from_bytes(seeds[at : at + size], "little"),
                int.from_bytes(seeds[at + size : at + 2 * size], "little"),
            )
            for at in range(0, len(seeds), 2 * size)
        ]
        honest = [words.coin(self.truthful) for _ in answers]
        others = [words.below(self.g - 1) for _ in answers]
        out = []
        for (alpha, beta), value, truth, other in zip(pairs, answers, honest, others, strict=True):
            bucket = self.bucket(alpha, beta, value)
            said = bucket if truth else other + (other >= bucket)
            head = alpha.to_bytes(size, "little") + beta.to_bytes(size, "little")
            out.append(head + said.to_bytes(number_bytes(self.g), "little"))
        return out


class Hadamard:
    def __init__(self, k: int, epsilon: Fraction) -> None:
        growth = exp(epsilon)
        self.outputs, self.truthful = 1 << k.bit_length(), down(growth / (growth + 1))
        self.length, self.loss = (
            number_bytes(self.outputs),
            loss(Fraction(self.truthful, ONE - self.truthful)),
        )

    def draw(self, answers: list[int], words: Words) -> list[bytes]:
        columns = [words.below(self.outputs) for _ in answers]
        honest = [words.coin(self.truthful) for _ in answers]
        out = []
        for value, drawn, truth in zip(answers, columns, honest, strict=True):
            row = value + 1
            positive = (row & drawn).bit_count() % 2 == 0
            turned = drawn ^ (row & -row) if positive != bool(truth) else drawn
            out.append(turned.to_bytes(self.length, "little"))
        return out


class Projective:
    """Points as tuples of coordinates, listed by their numbers."""

    def __init__(self, k: int, epsilon: Fraction, q: int) -> None:
        if q < 2 or any(q % d == 0 for d in range(2, q)):
            raise ValueError("q is no prime number")
        growth, t = exp(epsilon), 2
        while (q**t - 1) // (q - 1) < k:
            t += 1
        self.q, self.t, self.n_points = q, t, (q**t - 1) // (q - 1)
        near = (q ** (t - 1) - 1) // (q - 1)
        self.truthful = down(near * growth / (near * growth + self.n_points - near))
        self.length = number_bytes(self.n_points)
        ratio = Fraction(self.truthful * (self.n_points - near), (ONE - self.truthful) * near)
        self.loss = loss(max(ratio, 1 / ratio))

    def point(self, number: int) -> list[int]:
        """Points with fewer coordinates first: (0, …, 0, 1), then (0, …, 1, 0), (0, …, 1, 1), …"""
        for length in range(self.t):
            if number < self.q**length:
                rest = self.digits(number, length)
                return [0] * (self.t - 1 - length) + [1, *rest]
            number -= self.q**length
        raise AssertionError

    def digits(self, number: int, n: int) -> list[int]:
        return [number // self.q**place % self.q for place in reversed(range(n))]

    def number(self, vector: list[int]) -> int:
        lead = next(place for place, each in enumerate(vector) if each)
        scale = pow(vector[lead], -1, self.q)
        rest: int = 0
        for each in vector[lead + 1 :]:
            rest = rest * self.q + each * scale % self.q
        before: int = sum(self.q**length for length in range(self.t - 1 - lead))
        return before + rest

    def draw(self, answers: list[int], words: Words) -> list[bytes]:
        others = self.q ** (self.t - 1)
        honest = [words.coin(self.truthful) for _ in answers]
        nonzero = [1 + words.below(others - 1) for _ in answers]
        anything = [words.below(others) for _ in answers]
        out = []
        for v, near, one, two in zip(answers, honest, nonzero, anything, strict=True):
            x, y = self.point(v), self.digits(one if near else two, self.t - 1)
            lead = x.index(1)
            y.insert(lead, 0)
            product = sum(a * b for a, b in zip(x, y, strict=True))
            y[lead] = (1 - near - product) % self.q
            out.append(self.number(y).to_bytes(self.length, "little"))
        return out


class Ranges:
    """A tree whose leaves are the buckets: one level of it is reported."""

    def __init__(self, k: int, epsilon: Fraction, fan_outs: list[int]) -> None:
        self.levels: list[Any] = []
        self.leaves: list[int] = []
        nodes, leaves = k, 1
        for fan_out in reversed(fan_outs):
            flat = Subset(nodes, epsilon)
            self.levels.insert(0, flat if flat.w > 1 else Direct(nodes, epsilon))
            self.leaves.insert(0, leaves)
            root, nodes, leaves = nodes, -(-nodes // fan_out), leaves * fan_out
        if root != fan_outs[0]:
            raise ValueError("not the fan-outs of a tree of so many leaves")
        self.length = 1 + max(level.length for level in self.levels)
        self.loss = max(level.loss for level in self.levels)

    def draw(self, answers: list[int], words: Words) -> list[bytes]:
        depths = [words.below(len(self.levels)) for _ in answers]
        out = [b""] * len(answers)
        for depth, (level, leaves) in enumerate(zip(self.levels, self.leaves, strict=True)):
            rows = [i for i, each in enumerate(depths) if each == depth]
            for i, report in zip(
                rows, level.draw([answers[i] // leaves for i in rows], words), strict=True
            ):
                out[i] = (bytes([depth]) + report).ljust(self.length, b"\0")
        return out


class Matrix:
    def __init__(self, entries: list[list[float]]) -> None:
        k = len(entries)
        self.length = number_bytes(k)
        self.columns = []
        for v in range(k):
            column = [Fraction(entries[u][v]) for u in range(k)]
            weights = [max(1, math.floor(p * ONE / sum(column))) for p in column]
            weights[weights.index(max(weights))] += ONE - sum(weights)
            self.columns.append(weights)
        extremes = [[column[u] for column in self.columns] for u in range(k)]
        self.loss = loss(max(Fraction(max(row), min(row)) for row in extremes))

    def draw(self, answers: list[int], words: Words) -> list[bytes]:
        out = []
        for v in answers:
            edges = [sum(self.columns[v][: j + 1]) for j in range(len(self.columns) - 1)]
            out.append(words.pick(edges).to_bytes(self.length, "little"))
        return out


class Rappor:
    def __init__(self, k: int, f: Fraction, p: Fraction, q: Fraction) -> None:
        self.k, self.length = k, -(-k // 8)
        self.flip, self.p, self.q = nearest(f / 2), nearest(p), nearest(q)
        kept = ONE - self.flip
        a = Fraction(kept * self.q + self.flip * self.p, ONE * ONE)
        b = Fraction(kept * self.p + self.flip * self.q, ONE * ONE)
        self.loss = loss(a * (1 - b) / (b * (1 - a)))
        self.lifetime_loss = loss(Fraction(kept, self.flip) ** 2)

    def permanent(self, answers: list[int], words: Words) -> list[bytes]:
        rows = [[words.coin(self.flip) for _ in range(self.k)] for _ in answers]
        return [
            pack([bit ^ (j == v) for j, bit in enumerate(row)])
            for row, v in zip(rows, answers, strict=True)
        ]

    def replay(self, kept: list[bytes], words: Words) -> list[bytes]:
        return instantaneous(kept, self.k, self.p, self.q, words)

    def draw(self, answers: list[int], words: Words) -> list[bytes]:
        return self.replay(self.permanent(answers, words), words)


class TwoSteps:
    """Permanent bits of a unary mechanism, randomized once more in each report."""

    def __init__(self, first: Unary, step: dict[str, float]) -> None:
        self.first, self.k, self.length, self.ratio = first, first.k, first.length, first.ratio
        self.p, self.q = nearest(Fraction(step["p"])), nearest(Fraction(step["q"]))
        a, b = (
            Fraction(one * self.q + (ONE - one) * self.p, ONE * ONE) for one in (first.a, first.b)
        )
        self.loss, self.lifetime_loss = loss(a * (1 - b) / (b * (1 - a))), first.loss

    def permanent(self, answers: list[Any], words: Words) -> list[bytes]:
        sets = [each if isinstance(each, list) else [each] for each in answers]
        return self.first.draw_sets(sets, words)

    def replay(self, kept: list[bytes], words: Words) -> list[bytes]:
        return instantaneous(kept, self.k, self.p, self.q, words)


def instantaneous(kept: list[bytes], k: int, p: int, q: int, words: Words) -> list[bytes]:
    """The second step: first the coins for zeros of all rows, then those for ones, of which a
    permanent bit picks its own."""
    zeros = [[words.coin(p) for _ in range(k)] for _ in kept]
    ones = [[words.coin(q) for _ in range(k)] for _ in kept]
    return [
        pack(
            [
                one if row[j // 8] >> (j % 8) & 1 else zero
                for j, (zero, one) in enumerate(zip(z, o, strict=True))
            ]
        )
        for row, z, o in zip(kept, zeros, ones, strict=True)
    ]


def mechanism(recipe: dict[str, Any], k: int) -> Any:
    """The mechanism that a query describes; a KeyError where this client does not know it."""

    def number(name: str) -> Fraction:
        return Fraction(recipe[name])

    def two_coin() -> Unary:
        b = (1 - number("p")) * (1 - number("q") if recipe.get("inverted") else number("q"))
        return Unary(k, nearest(Fraction(float(number("p") + b))), nearest(Fraction(float(b))))

    def symmetric() -> Unary:
        b = up(1 / (exp(number("epsilon") / 2) + 1))
        return Unary(k, ONE - b, b)

    known: dict[str, Callable[[], Any]] = {
        "TwoCoin": two_coin,
        "UnaryEncoding": lambda: Unary(k, nearest(number("a")), nearest(number("b"))),
        "SymmetricUnary": symmetric,
        "OptimizedUnary": lambda: Unary(k, ONE // 2, up(1 / (exp(number("epsilon")) + 1))),
        "DirectEncoding": lambda: Direct(k, number("epsilon")),
        "SubsetSelection": lambda: Subset(k, number("epsilon")),
        "LocalHashing": lambda: Hashing(k, recipe["epsilon"], recipe.get("g")),
        "HadamardResponse": lambda: Hadamard(k, number("epsilon")),
        "ProjectiveResponse": lambda: Projective(k, number("epsilon"), recipe["q"]),
        "HierarchicalRanges": lambda: Ranges(k, number("epsilon"), recipe["fan_outs"]),
        "DesignMatrix": lambda: Matrix(recipe["P"]),
        "BasicRappor": lambda: Rappor(k, *map(number, "fpq")),
    }
    return known[recipe["name"]]()
