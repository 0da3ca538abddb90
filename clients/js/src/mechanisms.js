/**
 * The mechanisms of docs/wire.md. Each states its loss, the length of its report, and draws the
 * reports of some true answers. Where an answer chooses a bit, it does so by arithmetic, not by a branch.
 */

import { integer, little } from "./bytes.js";
import { any, double, list, one as oneOf, orNull, refuse, shape, table, whole } from "./checks.js";
import { Fraction, ONE, down, exp, fraction, loss, nearest, up } from "./fraction.js";
import { Threshold } from "./words.js";

/** @typedef {import("./words.js").Words} Words */

/**
 * @typedef {object} Mechanism
 * @property {number} bytes the length of a report
 * @property {(ones: number) => number} loss of one report, for answers in up to `ones` buckets
 * @property {boolean} [unary] one bit per bucket, which can say that an answer is in none, or in several
 * @property {bigint} [a] of a unary mechanism, the integer for the true bucket's bit
 * @property {bigint} [b] and for the others'
 * @property {(sets: number[][], words: Words) => Uint8Array[]} draw one report for each row's answer, a list of buckets
 * @property {(ones: number) => number} [lifetime] the loss of permanent bits, over all reports
 * @property {(sets: number[][], words: Words) => Uint8Array[]} [permanent]
 * @property {(kept: Uint8Array[], words: Words) => Uint8Array[]} [replay] reports of permanent bits
 */

const UNIT = fraction(1);
/** @param {bigint} n @param {bigint} d */
const decimalLoss = (n, d) => loss(new Fraction(n, d));

/** Bit j in bit j mod 8 of byte floor(j / 8). @param {Uint8Array} bits */
const pack = (bits) => {
  const out = new Uint8Array(Math.ceil(bits.length / 8));
  for (let j = 0; j < bits.length; j++) out[j >> 3] |= bits[j] << (j & 7);
  return out;
};

/** How many bytes a number below `outputs` takes. @param {number} outputs */
const width = (outputs) => (outputs <= 1 << 8 ? 1 : outputs <= 1 << 16 ? 2 : 4);

/** @param {number} value @param {number} outputs */
const number = (value, outputs) => little(value, width(outputs));

/** One coin for each of the k bits. @param {number} k @param {Threshold} t @param {Words} words */
const coins = (k, t, words) => Uint8Array.from({ length: k }, () => words.coin(t));

/** Another of g values, uniform: `o` counts those besides `v`; v itself if h is 1. @param {number} h @param {number} o @param {number} v */
const truthOr = (h, o, v) => {
  const other = o + Number(o >= v);
  return other ^ ((other ^ v) & -h);
};

/** q* (1 - p*) / (p* (1 - q*)). @param {bigint} true_ over 2^128 @param {bigint} false_ */
const twoStepLoss = (true_, false_) => {
  const whole = ONE * ONE;
  return new Fraction(true_ * (whole - false_), false_ * (whole - true_));
};

/** @param {number} k @param {bigint} a @param {bigint} b @returns {Mechanism} */
const unary = (k, a, b) => {
  if (!(0n < b && b < a && a < ONE)) refuse("mechanism.a");
  const [one, zero] = [new Threshold(a), new Threshold(b)];
  const flips = Number(a === ONE / 2n);
  const ratio = new Fraction(a * (ONE - b), b * (ONE - a));
  return {
    unary: true,
    a,
    b,
    bytes: Math.ceil(k / 8),
    loss: (ones) => loss(ratio, ones),
    draw: (sets, words) => {
      const rows = sets.map(() => coins(k, zero, words));
      for (let place = 0; place < (sets[0]?.length ?? 0); place++) {
        rows.forEach((bits, i) => {
          const coin = words.coin(one);
          for (let j = 0; j < k; j++) {
            const here = Number(j === sets[i][place]);
            bits[j] ^= here & (coin ^ (bits[j] & (flips ^ 1)));
          }
        });
      }
      return rows.map(pack);
    },
  };
};

/** Reports of permanent bits: first the coins for zeros of all rows, then those for ones. @param {number} k @param {bigint} p @param {bigint} q */
const replaying = (k, p, q) => {
  if (q <= p) refuse("q");
  const [low, high] = [new Threshold(p), new Threshold(q)];
  return (/** @type {Uint8Array[]} */ kept, /** @type {Words} */ words) => {
    const zeros = kept.map(() => pack(coins(k, low, words)));
    const ones = kept.map(() => pack(coins(k, high, words)));
    return kept.map((row, i) => row.map((bits, j) => (ones[i][j] & bits) | (zeros[i][j] & ~bits)));
  };
};

/**
 * Permanent bits of a first mechanism, randomized once more in each report.
 * @param {Mechanism} first @param {number} k @param {bigint} p @param {bigint} q @returns {Mechanism}
 */
const replayed = (first, k, p, q) => {
  const seen = (/** @type {bigint} */ one) => one * q + (ONE - one) * p;
  const ratio = twoStepLoss(seen(first.a ?? 0n), seen(first.b ?? 0n));
  const replay = replaying(k, p, q);
  return {
    ...first,
    loss: (ones) => loss(ratio, ones),
    lifetime: first.loss,
    permanent: first.draw,
    replay,
    draw: (sets, words) => replay(first.draw(sets, words), words),
  };
};

/** @param {number} probability */
const rounded = (probability) => nearest(Fraction.ofDouble(probability));

/** @param {Mechanism} first @param {number} k @param {{p: number, q: number}} step */
export const twoSteps = (first, k, { p, q }) => replayed(first, k, rounded(p), rounded(q));

/** @param {number} k @param {bigint} flip @param {bigint} p @param {bigint} q @returns {Mechanism} */
const rappor = (k, flip, p, q) => {
  const kept = ONE - flip;
  if (2n * flip >= ONE) refuse("mechanism.f");
  const t = new Threshold(flip);
  /** @type {Mechanism} */
  const first = {
    a: kept,
    b: flip,
    bytes: Math.ceil(k / 8),
    loss: () => decimalLoss(kept * kept, flip * flip),
    draw: (sets, words) => {
      const rows = sets.map(() => coins(k, t, words));
      return rows.map((bits, i) => pack(bits.map((bit, j) => bit ^ Number(j === sets[i][0]))));
    },
  };
  return replayed(first, k, p, q);
};

/** @param {number} k @param {Fraction} growth @returns {Mechanism} */
const subset = (k, growth) => {
  /** @param {number} w */
  const included = (w) => {
    const weight = growth.times(fraction(w));
    return weight.over(weight.plus(fraction(k - w)));
  };
  /** @param {number} w */
  const variance = (w) => {
    const a = included(w);
    const b = fraction(w).minus(a).over(fraction(k - 1));
    const gap = a.minus(b);
    const first = fraction(k).times(b).times(UNIT.minus(b)).over(gap.times(gap));
    return first.plus(UNIT.minus(a).minus(b).over(gap));
  };
  const near = Number(fraction(k).over(growth.plus(UNIT)).floor);
  const [few, many] = [Math.max(near, 1), Math.min(near + 1, k - 1)];
  const w = variance(few).exceeds(variance(many)) ? many : few;
  const t = down(included(w));
  const coin = new Threshold(t);
  return {
    bytes: Math.ceil(k / 8),
    loss: () => decimalLoss(t * BigInt(k - w), (ONE - t) * BigInt(w)),
    draw: (sets, words) => {
      const h = sets.map(() => words.coin(coin));
      /** @type {Uint8Array[]} */
      const rows = [];
      for (const wanted of [1, 0]) {
        h.forEach((each, i) => {
          if (each !== wanted) return;
          rows[i] = new Uint8Array(k);
          rows[i].set(words.subset(k - 1, w - wanted));
        });
      }
      return rows.map((bits, i) => {
        const v = sets[i][0];
        let moved = 0; // what the true bucket's place got goes to the last, which is free
        for (let j = 0; j < k - 1; j++) moved |= bits[j] & Number(j === v);
        bits[k - 1] = moved;
        for (let j = 0; j < k; j++) bits[j] ^= (bits[j] ^ h[i]) & Number(j === v);
        return pack(bits);
      });
    },
  };
};

const MIXERS = [0x9e3779b97f4a7c15n, 0x243f6a8885a308d3n, 0xb7e151628aed2a6an];
const LARGEST_G = 1 << 16;

/** The number of hash values with the least variance for rare answers. @param {Fraction} growth */
const bestG = (growth) => {
  const near = Math.min(Number(growth.plus(UNIT).floor), LARGEST_G - 1);
  /** @param {number} g */
  const variance = (g) => {
    const [a, b] = [growth.over(growth.plus(fraction(g - 1))), new Fraction(1n, BigInt(g))];
    const gap = a.minus(b);
    return b.times(UNIT.minus(b)).over(gap.times(gap));
  };
  return variance(near).exceeds(variance(near + 1)) ? near + 1 : near;
};

/** hash(v) of the specification, for seeds of `bits` bits. @param {bigint} alpha @param {bigint} beta @param {number} v @param {number} g @param {bigint} bits */
export const hashed = (alpha, beta, v, g, bits) => {
  const half = bits / 2n;
  let code = BigInt(v);
  for (const mixer of MIXERS) {
    code = BigInt.asUintN(Number(half), code * ((mixer >> (64n - half)) | 1n));
    code ^= code >> (half / 2n);
  }
  const top = BigInt.asUintN(Number(bits), alpha * code + beta) >> (half - 1n);
  return Number((top * BigInt(g)) >> (half + 1n));
};

/**
 * One of g values: the answer's own, or its hash under two seeds of `size` bytes each.
 * @param {Fraction} growth @param {number} g @param {number} size 0 without a hash @returns {Mechanism}
 */
const hashing = (growth, g, size) => {
  const t = down(growth.over(growth.plus(fraction(g - 1))));
  const honest = new Threshold(t);
  return {
    bytes: 2 * size + width(g),
    loss: () => decimalLoss(t * BigInt(g - 1), ONE - t),
    draw: (sets, words) => {
      const seeds = words.bytes(2 * size * sets.length);
      const h = sets.map(() => words.coin(honest));
      const others = sets.map(() => words.below(g - 1));
      return sets.map(([v], i) => {
        const seed = seeds.subarray(2 * size * i, 2 * size * (i + 1));
        const place = size ? hashed(integer(seed.subarray(0, size)), integer(seed.subarray(size)), v, g, BigInt(8 * size)) : v;
        return Uint8Array.of(...seed, ...number(truthOr(h[i], others[i], place), g));
      });
    },
  };
};

/** @param {number} x */
const odd = (x) => {
  for (let by = 16; by; by >>= 1) x ^= x >>> by;
  return x & 1;
};

/** @param {number} k @param {Fraction} growth @returns {Mechanism} */
const hadamard = (k, growth) => {
  const outputs = 2 ** k.toString(2).length;
  const t = down(growth.over(growth.plus(UNIT)));
  const honest = new Threshold(t);
  return {
    bytes: width(outputs),
    loss: () => decimalLoss(t, ONE - t),
    draw: (sets, words) => {
      const columns = sets.map(() => words.below(outputs));
      const h = sets.map(() => words.coin(honest));
      return sets.map(([v], i) => {
        const row = v + 1;
        const differs = odd(row & columns[i]) ^ 1 ^ h[i];
        return number(columns[i] ^ (row & -row & -differs), outputs);
      });
    },
  };
};

const LARGEST_MATRIX = 1024;

/** @param {number} k @param {number[][]} rows @returns {Mechanism} */
const matrix = (k, rows) => {
  if (rows.length !== k || k > LARGEST_MATRIX || rows.some((row) => row.length !== k)) refuse("mechanism.P");
  const columns = rows.map((_, v) => {
    const entries = rows.map((row) => Fraction.ofDouble(row[v]));
    const total = entries.reduce((sum, entry) => sum.plus(entry));
    if (Math.abs(total.double - 1) > 1e-9) refuse("mechanism.P");
    const weights = entries.map((entry) => down(entry.over(total)));
    const largest = weights.indexOf(weights.reduce((a, b) => (b > a ? b : a)));
    weights[largest] += ONE - weights.reduce((a, b) => a + b);
    return weights;
  });
  const edges = columns.map((weights) => {
    let sum = 0n;
    return weights.slice(0, -1).map((weight) => new Threshold((sum += weight)));
  });
  let worst = UNIT;
  for (let u = 0; u < k; u++) {
    const row = columns.map((column) => column[u]).sort((a, b) => (a < b ? -1 : 1));
    const ratio = new Fraction(row[k - 1], row[0]);
    if (ratio.exceeds(worst)) worst = ratio;
  }
  return {
    bytes: width(k),
    loss: () => loss(worst),
    draw: (sets, words) => sets.map(([v]) => number(words.pick(edges[v]), k)),
  };
};

const probability = double(1, true);
/** @type {import("./checks.js").Check<Fraction>} */
const epsilon = (value, name) => {
  const found = double(40)(value, name);
  return found < 1e-9 ? refuse(name) : Fraction.ofDouble(found); // 64-bit coins are no finer
};

/** 1 / (e^x + 1), rounded up. @param {Fraction} x */
const reciprocal = (x) => up(UNIT.over(exp(x).plus(UNIT)));

/**
 * For each mechanism, the parameters it needs, those it may have, and how it is built for k buckets.
 * @type {{[name: string]: [{[key: string]: import("./checks.js").Check<any>}, {[key: string]: import("./checks.js").Check<any>}, (k: number, given: any) => Mechanism]}}
 */
const KNOWN = {
  TwoCoin: [{ p: probability, q: probability }, { inverted: oneOf(true) }, (k, given) => {
    const [p, q] = [given.p, given.q].map(Fraction.ofDouble);
    const b = UNIT.minus(p).times(given.inverted ? UNIT.minus(q) : q);
    const [one, zero] = [p.plus(b).double, b.double].map((each) => (each < 1 ? rounded(each) : ONE));
    return unary(k, one, zero);
  }],
  UnaryEncoding: [{ a: probability, b: probability }, {}, (k, { a, b }) => unary(k, rounded(a), rounded(b))],
  SymmetricUnary: [{ epsilon }, {}, (k, given) => {
    const b = reciprocal(given.epsilon.over(fraction(2)));
    return unary(k, ONE - b, b);
  }],
  OptimizedUnary: [{ epsilon }, {}, (k, given) => unary(k, ONE / 2n, reciprocal(given.epsilon))],
  DirectEncoding: [{ epsilon }, {}, (k, given) => hashing(exp(given.epsilon), k, 0)],
  SubsetSelection: [{ epsilon }, {}, (k, given) => subset(k, exp(given.epsilon))],
  LocalHashing: [{ epsilon }, { g: orNull(whole(2, LARGEST_G)) }, (k, given) => {
    const growth = exp(given.epsilon);
    return hashing(growth, given.g ?? bestG(growth), k <= 1 << 16 ? 4 : 8);
  }],
  HadamardResponse: [{ epsilon }, {}, (k, given) => hadamard(k, exp(given.epsilon))],
  DesignMatrix: [{ P: list(list(probability)) }, {}, (k, { P }) => matrix(k, P)],
  BasicRappor: [{ f: probability, p: probability, q: probability }, {}, (k, { f, p, q }) => rappor(k, rounded(f / 2), rounded(p), rounded(q))],
};

/**
 * The mechanism that a query describes, for k buckets.
 * @param {any} tree @param {number} k @returns {Mechanism}
 */
export const mechanism = (tree, k) => {
  const { name } = table(tree, "mechanism");
  if (!Object.hasOwn(KNOWN, name)) return refuse("mechanism.name");
  const [required, optional, build] = KNOWN[name];
  return build(k, shape({ name: any, ...required }, optional)(tree, "mechanism"));
};
