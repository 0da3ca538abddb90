/**
 * Exact numbers. No floating-point number decides a coin or a charge, so probabilities, losses and
 * costs are fractions of big integers; e^x and ln x are fixed-point numbers of 448 binary places,
 * some 130 decimals, of which the specification asks for 60.
 */

import { above } from "./bytes.js";

export const ONE = 1n << 64n;
const PLACES = 448n;
const UNIT = 1n << PLACES;

/** @param {bigint} a @param {bigint} b @returns {bigint} */
const gcd = (a, b) => (b ? gcd(b, a % b) : a < 0n ? -a : a);

/** @param {bigint} n */
const bitLength = (n) => n.toString(2).length;

/** A fraction in lowest terms. */
export class Fraction {
  /** @param {bigint} n @param {bigint} [d] positive */
  constructor(n, d = 1n) {
    const shared = gcd(n, d);
    this.n = n / shared;
    this.d = d / shared;
  }

  /**
   * The exact value of a double.
   * @param {number} value
   */
  static ofDouble(value) {
    let scale = 0n;
    for (; !Number.isInteger(value); scale++) value *= 2; // exact: the value is below 2^53, or it would be whole
    return new Fraction(BigInt(value), 1n << scale);
  }

  /**
   * What a decimal such as `2.5e-7`, or a fraction such as `5/2`, says; a double counts as the shortest
   * decimal that reads back as it, which is what a ledger adds.
   * @param {string | number} given
   */
  static parse(given) {
    const text = String(given);
    const found = /^([+-]?)(\d*)(?:\.(\d*))?(?:e([+-]?\d{1,4}))?$/i.exec(text);
    if (found && (found[2] || found[3])) {
      const tail = found[3] ?? "";
      const n = BigInt(found[1] + "1") * BigInt(found[2] + tail);
      const power = Number(found[4] ?? 0) - tail.length;
      const scale = 10n ** BigInt(Math.abs(power));
      return power < 0 ? new Fraction(n, scale) : new Fraction(n * scale);
    }
    const [n, d] = text.split("/");
    if (!/^-?\d+$/.test(n) || !/^\d*[1-9]\d*$/.test(d ?? "")) {
      throw new RangeError(`${text} is not a number`);
    }
    return new Fraction(BigInt(n), BigInt(d));
  }

  /** @param {Fraction} other */
  plus(other) {
    return new Fraction(this.n * other.d + other.n * this.d, this.d * other.d);
  }

  /** @param {Fraction} other */
  minus(other) {
    return new Fraction(this.n * other.d - other.n * this.d, this.d * other.d);
  }

  /** @param {Fraction} other */
  times(other) {
    return new Fraction(this.n * other.n, this.d * other.d);
  }

  /** @param {Fraction} other */
  over(other) {
    return new Fraction(this.n * other.d, this.d * other.n);
  }

  /** @param {Fraction} other */
  exceeds(other) {
    return this.n * other.d > other.n * this.d;
  }

  /** Of a fraction that is not negative, as is the next. */
  get floor() {
    return this.n / this.d;
  }

  get ceiling() {
    return (this.n + this.d - 1n) / this.d;
  }

  /** The nearest integer; of two, the even one. */
  get nearest() {
    const twice = new Fraction(2n * this.n + this.d, 2n * this.d);
    const up = twice.floor;
    return twice.d === 1n && up & 1n ? up - 1n : up;
  }

  /** The nearest double; of two, the one with an even last digit. For sizes above 2^-960. */
  get double() {
    const size = this.n < 0n ? -this.n : this.n;
    const scale = BigInt(Math.max(0, 64 + bitLength(this.d) - bitLength(size)));
    const scaled = size << scale;
    // At least 63 binary digits; the last says whether anything follows, and `Number` rounds to even.
    const double = Number((scaled / this.d) | BigInt(scaled % this.d > 0n)) / 2 ** Number(scale);
    return this.n < 0n ? -double : double;
  }

  toString() {
    return this.d === 1n ? `${this.n}` : `${this.n}/${this.d}`;
  }
}

/** @param {number} n */
export const fraction = (n) => new Fraction(BigInt(n));
export const ZERO = fraction(0);

/** e^x in units of 2^-448, for x in the same units. @param {bigint} x */
const fixedExp = (x) => {
  const halvings = 40n;
  const guard = 128n; // squaring 40 times loses 40 places of these
  const one = UNIT << guard;
  const small = (x << guard) >> halvings;
  let sum = one;
  let term = one;
  for (let n = 1n; term && term !== -1n; n++) {
    term = (term * small) / (one * n);
    sum += term;
  }
  for (let i = 0n; i < halvings; i++) sum = (sum * sum) >> (PLACES + guard);
  return sum >> guard;
};

/** @param {Fraction} x */
export const exp = (x) => new Fraction(fixedExp((x.n * UNIT) / x.d), UNIT);

/** ln of a ratio of at least 1, in units of 2^-448. @param {Fraction} ratio */
const fixedLn = (ratio) => {
  const guess = Fraction.ofDouble(Math.log(ratio.double));
  const value = (ratio.n * UNIT) / ratio.d;
  let point = (guess.n * UNIT) / guess.d;
  // ln r = g + 2 artanh((r - e^g) / (r + e^g)): its first term alone has three times as many right digits.
  for (let round = 0; round < 4; round++) {
    const power = fixedExp(point);
    point += (2n * (value - power) * UNIT) / (value + power);
  }
  return point;
};

/**
 * The loss ln(ratio), `times` times: the smallest double that is not below it.
 * @param {Fraction} ratio
 */
export const loss = (ratio, times = 1) => {
  const inverse = new Fraction(ratio.d, ratio.n);
  const larger = inverse.exceeds(ratio) ? inverse : ratio;
  if (larger.n === larger.d) return 0;
  const exact = new Fraction(fixedLn(larger) * BigInt(times), UNIT);
  const double = exact.double;
  return exact.exceeds(Fraction.ofDouble(double)) ? above(double) : double;
};

/** @param {bigint} a @param {bigint} b */
const smaller = (a, b) => (a < b ? a : b);
/** @param {bigint} a @param {bigint} b */
const larger = (a, b) => (a > b ? a : b);
const SCALE = new Fraction(ONE);

/** The integer over 2^64, rounded up, and never 2^64. @param {Fraction} p */
export const up = (p) => smaller(p.times(SCALE).ceiling, ONE - 1n);
/** Rounded down, and never 0. @param {Fraction} p */
export const down = (p) => larger(p.times(SCALE).floor, 1n);
/** To the nearest, and neither 0 nor 2^64. @param {Fraction} p */
export const nearest = (p) => smaller(larger(p.times(SCALE).nearest, 1n), ONE - 1n);
