/**
 * The mechanisms of docs/wire.md. Each states its loss, the length of its report, and draws the
 * reports of some true answers. Where an answer chooses a bit, it does so by arithmetic, not by a branch.
 */

import { integer, little } from "./bytes.js";
import { any, double, list, one as oneOf, orNull, probability, refuse, shape, table, whole } from "./checks.js";
import { Fraction, ONE, down, exp, fraction, loss, nearest, up } from "./fraction.js";
import { pointWith, points } from "./projective.js";

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

/** One coin for each of the k bits. @param {number} k @param {bigint} t @param {Words} words */
const coins = (k, t, words) => Uint8Array.from({ length: k }, () => words.coin(t));

/** Another of g values, uniform: `o` counts those besides `v`; v itself if h is 1. @param {number} h @param {number} o @param {number} v */
const truthOr = (h, o, v) => {
  const other = o + Number(o >= v);
  return other ^ ((other ^ v) & -h);
};

/** a (1 - b) / (b (1 - a)). @param {bigint} a over `whole` @param {bigint} b */
const odds = (a, b, whole = ONE) => new Fraction(a * (whole - b), b * (whole - a));

/** With `sure`, the true bucket's bit is flipped without a coin of its own. @param {number} k @param {bigint} a @param {bigint} b @returns {Mechanism} */
const unary = (k, a, b, sure = false) => {
  if (!(0n < b && b < a && a < ONE)) refuse("mechanism.a");
  const flips = Number(sure || a === ONE / 2n);
  const ratio = odds(a, b);
  return {
    unary: true,
    a,
    b,
    bytes: Math.ceil(k / 8),
    loss: (ones) => loss(ratio, ones),
    draw: (sets, words) => {
      const rows = sets.map(() => coins(k, b, words));
      for (let place = 0; place < (sets[0]?.length ?? 0); place++) {
        rows.forEach((bits, i) => {
          const coin = sure ? 1 : words.coin(a);
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

/**
 * Permanent bits of a first mechanism, randomized once more in each report: first the coins for zeros of
 * all rows are drawn, then those for ones.
 * @param {Mechanism} first @param {number} k @param {bigint} p @param {bigint} q @returns {Mechanism}
 */
const replayed = (first, k, p, q) => {
  if (q <= p) refuse("q");
  const seen = (/** @type {bigint} */ one) => one * q + (ONE - one) * p;
  const ratio = odds(seen(first.a ?? 0n), seen(first.b ?? 0n), ONE * ONE);
  const replay = (/** @type {Uint8Array[]} */ kept, /** @type {Words} */ words) => {
    const [zeros, ones] = [p, q].map((t) => kept.map(() => pack(coins(k, t, words))));
    return kept.map((row, i) => row.map((bits, j) => (ones[i][j] & bits) | (zeros[i][j] & ~bits)));
  };
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

/** @param {number} k @param {bigint} flip @param {bigint} p @param {bigint} q */
const rappor = (k, flip, p, q) => replayed({ ...unary(k, ONE - flip, flip, true), unary: false }, k, p, q);

/**
 * The coin that lets a report be one of the `w` outputs, of `k`, that each are e^epsilon times as likely as the others.
 * @param {Fraction} growth e^epsilon @param {number} w @param {number} k
 */
const favouring = (growth, w, k) => {
  const weight = growth.times(fraction(w));
  const t = down(weight.over(weight.plus(fraction(k - w))));
  return { honest: t, loss: () => loss(new Fraction(t * BigInt(k - w), (ONE - t) * BigInt(w))) };
};

/** What the variance of such reports grows with: w of k outputs, all equally likely. @param {Fraction} growth @param {number} w @param {number} k */
const variance = (growth, w, k) => {
  const total = growth.times(fraction(w)).plus(fraction(k - w));
  return total.times(total).over(fraction(w * (k - w)));
};

/** With `short`, a set of one value is sent as its number. @param {number} k @param {Fraction} growth @returns {Mechanism} */
const subset = (k, growth, short = false) => {
  const near = Number(fraction(k).over(growth.plus(UNIT)).floor);
  const [few, many] = [Math.max(near, 1), Math.min(near + 1, k - 1)];
  const w = variance(growth, few, k).exceeds(variance(growth, many, k)) ? many : few;
  if (short && w === 1) return hashing(k, growth, k, 0);
  const { honest, loss } = favouring(growth, w, k);
  return {
    bytes: Math.ceil(k / 8),
    loss,
    draw: (sets, words) => {
      const h = sets.map(() => words.coin(honest));
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
  return variance(growth, 1, near).exceeds(variance(growth, 1, near + 1)) ? near + 1 : near;
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
 * @param {number} k @param {Fraction} growth @param {number} g @param {number} size 0 without a hash @returns {Mechanism}
 */
const hashing = (k, growth, g = bestG(growth), size = k <= 1 << 16 ? 4 : 8) => {
  const { honest, loss } = favouring(growth, 1, g);
  return {
    bytes: 2 * size + width(g),
    loss,
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
  const { honest, loss } = favouring(growth, 1, 2);
  return {
    bytes: width(outputs),
    loss,
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

const LARGEST_SPACE = 1 << 25;

/** @param {number} k @param {Fraction} growth @param {{q: number}} given @returns {Mechanism} */
const projective = (k, growth, { q }) => {
  let t = 2;
  while (points(q, t) < k) t++;
  if (q ** t > LARGEST_SPACE) refuse("mechanism.q");
  for (let d = 2; d < q; d++) if (q % d === 0) refuse("mechanism.q");
  const all = points(q, t);
  const { honest, loss } = favouring(growth, points(q, t - 1), all);
  const others = q ** (t - 1);
  return {
    bytes: width(all),
    loss,
    draw: (sets, words) => {
      const h = sets.map(() => words.coin(honest));
      const nonzero = sets.map(() => 1 + words.below(others - 1));
      const any = sets.map(() => words.below(others));
      return sets.map(([v], i) => number(pointWith(v, 1 - h[i], any[i] + h[i] * (nonzero[i] - any[i]), q, t), all));
    },
  };
};

const LARGEST_TREE = 2048;
const MOST_LEVELS = 11;

/** @param {number} k @param {Fraction} growth @param {{fan_outs: number[]}} given @returns {Mechanism} */
const ranges = (k, growth, { fan_outs: [first, ...below] }) => {
  const sizes = below.reduceRight((found, each) => [Math.ceil(found[0] / each), ...found], [k]);
  if (sizes[0] !== first || k > LARGEST_TREE) refuse("mechanism.fan_outs");
  const levels = sizes.map((size) => subset(size, growth, true));
  const bytes = 1 + Math.max(...levels.map((level) => level.bytes));
  return {
    bytes,
    loss: () => Math.max(...levels.map((level) => level.loss(1))),
    draw: (sets, words) => {
      const depths = sets.map(() => words.below(levels.length));
      const rows = sets.map(() => new Uint8Array(bytes));
      levels.forEach((level, depth) => {
        const leaves = below.slice(depth).reduce((n, each) => n * each, 1);
        const chosen = [...depths.keys()].filter((i) => depths[i] === depth);
        const drawn = level.draw(chosen.map((i) => [Math.floor(sets[i][0] / leaves)]), words);
        drawn.forEach((report, j) => rows[chosen[j]].set([depth, ...report]));
      });
      return rows;
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
    return weights.slice(0, -1).map((weight) => (sum += weight));
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

/** @type {import("./checks.js").Check<Fraction>} */
const epsilon = (value, name) => {
  const found = double(40)(value, name);
  return found < 1e-9 ? refuse(name) : Fraction.ofDouble(found); // 64-bit coins are no finer
};

/** 1 / (e^x + 1), rounded up. @param {Fraction} x */
const reciprocal = (x) => up(UNIT.over(exp(x).plus(UNIT)));

/** @typedef {{[key: string]: import("./checks.js").Check<any>}} Checks */
/** @typedef {[required: Checks, optional: Checks, build: (k: number, given: any) => Mechanism]} Recipe the parameters it needs, those it may have, and how it is built for k buckets */

/**
 * A mechanism with an epsilon.
 * @param {(k: number, growth: Fraction, given: any) => Mechanism} build @param {Checks} required @param {Checks} optional @returns {Recipe}
 */
const grown = (build, required = {}, optional = {}) => [{ epsilon, ...required }, optional, (k, given) => build(k, exp(given.epsilon), given)];

/** @type {{[name: string]: Recipe}} */
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
  DirectEncoding: grown((k, growth) => hashing(k, growth, k, 0)),
  SubsetSelection: grown((k, growth) => subset(k, growth)),
  LocalHashing: grown((k, growth, { g }) => hashing(k, growth, g ?? undefined), {}, { g: orNull(whole(2, LARGEST_G)) }),
  HadamardResponse: grown(hadamard),
  ProjectiveResponse: grown(projective, { q: whole(2, LARGEST_SPACE) }),
  HierarchicalRanges: grown(ranges, { fan_outs: list(whole(2, LARGEST_TREE), 1, MOST_LEVELS) }),
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
