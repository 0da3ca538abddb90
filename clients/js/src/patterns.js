/**
 * Text patterns that cannot explode: globs and a regular subset of regular expressions, never read
 * by the engine's own RegExp, whose time may be exponential.
 *
 * A pattern becomes Glushkov's position automaton: one state for each character that it can take,
 * and for each the states that may follow, as bits of a big integer. Reading a character is one step
 * of a set of states, so the time is at most (length of the text) x (positions of the pattern).
 */

import { codeOf } from "./bytes.js";
import { FormError } from "./canonical.js";

const MOST_POSITIONS = 400;
const DEEPEST = 40;
export const LONGEST_TEXT = 4096;
const MOST_WORK = 1_000_000;
const LAST = 0x10ffff;
const REPEATS = "*+?{";

/** @typedef {[number, number][]} Ranges of code points, ascending, both ends included */
/** @typedef {[empty: boolean, first: bigint, last: bigint]} Fragment whether it matches no text, and its outermost positions */
/** @typedef {() => Fragment} Part makes the positions of a part of a pattern: once for each copy of it */
/** @typedef {ReturnType<typeof pattern>} Pattern */

/** @param {Ranges} ranges @returns {Ranges} */
const negated = (ranges) => {
  /** @type {Ranges} */
  const out = [];
  let start = 0;
  for (const [low, high] of ranges) {
    if (low > start) out.push([start, low - 1]);
    start = high + 1;
  }
  if (start <= LAST) out.push([start, LAST]);
  return out;
};

/** @param {Ranges} ranges @returns {Ranges} */
const united = (ranges) => {
  /** @type {Ranges} */
  const out = [];
  for (const [low, high] of [...ranges].sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const last = out[out.length - 1];
    if (last && low <= last[1] + 1) last[1] = Math.max(last[1], high);
    else out.push([low, high]);
  }
  return out;
};

/** @type {Ranges} */ const DIGIT = [[48, 57]];
/** @type {Ranges} */ const WORD = [[48, 57], [65, 90], [95, 95], [97, 122]];
/** @type {Ranges} */ const SPACE = [[9, 13], [32, 32]];
/** @type {Ranges} */ const NEWLINE = [[10, 10]];
/** @type {Ranges} */ const ANY = [[0, LAST]];
/** @type {{[letter: string]: Ranges}} */
const ESCAPES = {
  d: DIGIT, w: WORD, s: SPACE, D: negated(DIGIT), W: negated(WORD), S: negated(SPACE), n: NEWLINE, t: [[9, 9]],
};

/** @param {string} character @returns {Ranges} */
const single = (character) => {
  const code = codeOf(character);
  return [[code, code]];
};

/** @param {bigint} mask */
const positions = function* (mask) {
  for (let i = 0; mask; i++, mask >>= 1n) if (mask & 1n) yield i;
};

/**
 * What `make` gives for a key, remembered for some thousand of them.
 * @template K
 * @param {(key: K) => bigint} make
 */
const remembered = (make) => {
  /** @type {Map<K, bigint>} */
  const known = new Map();
  return (/** @type {K} */ key) => {
    const found = known.get(key) ?? make(key);
    if (known.size < LONGEST_TEXT) known.set(key, found);
    return found;
  };
};

/**
 * One pattern, ready to read texts. Why one is refused is for analysts, whom `deniable query check`
 * tells; a device says which.
 * @param {"glob" | "regex"} kind @param {string} source
 */
export const pattern = (kind, source) => {
  /** @type {Ranges[]} */
  const ranges = [];
  /** @type {bigint[]} */
  const follow = [];
  const text = Array.from(source);
  const glob = kind === "glob";
  let at = 0;
  let depth = 0;

  /** @returns {never} */
  const refuse = () => {
    throw new FormError(source);
  };

  /** @param {bigint} last @param {bigint} first */
  const link = (last, first) => {
    for (const position of positions(last)) follow[position] |= first;
  };

  /** One character after the other. @param {Fragment[]} fragments @returns {Fragment} */
  const chain = (fragments) => {
    /** @type {Fragment} */
    let [empty, first, last] = [true, 0n, 0n];
    for (const each of fragments) {
      link(last, each[1]);
      if (empty) first |= each[1];
      last = each[2] | (each[0] ? last : 0n);
      empty &&= each[0];
    }
    return [empty, first, last];
  };

  /** A character out of some. @param {Ranges} taken @returns {Part} */
  const one = (taken) => () => {
    if (ranges.length === MOST_POSITIONS) refuse();
    follow.push(0n);
    const mask = 1n << BigInt(ranges.push(taken) - 1);
    return [false, mask, mask];
  };

  /** @param {Part} part @param {number} least @param {number} most @returns {Part} */
  const repeat = (part, least, most) => () => {
    /** @type {Fragment[]} */
    const fragments = [];
    const copies = most === Infinity ? Math.max(least, 1) : most;
    for (let copy = 0; copy < copies; copy++) {
      const [empty, first, last] = part();
      fragments.push([empty || copy >= least, first, last]);
      if (!first) break; // an empty part stays empty however often it is repeated
    }
    const end = fragments[fragments.length - 1];
    if (most === Infinity) link(end[2], end[1]);
    return chain(fragments);
  };

  const take = () => text[at++] ?? refuse();
  /** Whether the next character is one of these. @param {string} characters */
  const sees = (characters) => at < text.length && characters.includes(text[at]);
  /** @param {string} character */
  const skips = (character) => sees(character) && Boolean(++at);

  const escape = () => {
    const character = take();
    if (Object.hasOwn(ESCAPES, character)) return ESCAPES[character];
    return /[\p{L}\p{N}]/u.test(character) ? refuse() : single(character);
  };

  /** In a glob, a backslash is a character like any other. */
  const classMember = () => {
    const character = take();
    return character === "\\" && !glob ? escape() : single(character);
  };

  const characterClass = () => {
    const inverted = skips(glob ? "!" : "^");
    /** @type {Ranges} */
    const found = [];
    do {
      const low = classMember();
      if (sees("-") && ![undefined, "]"].includes(text[at + 1])) {
        at++;
        const [start, end] = [low, classMember()].map((each) => (each.length === 1 && each[0][0] === each[0][1] ? each[0][0] : refuse()));
        found.push(end < start ? refuse() : [start, end]);
      } else found.push(...low);
    } while (!skips("]"));
    return inverted ? negated(united(found)) : united(found);
  };

  /** @returns {Part} */
  const group = () => {
    if (skips("?") && !skips(":")) refuse(); // no names, flags or looking around
    if (++depth > DEEPEST) refuse();
    const part = alternatives();
    if (!skips(")")) refuse();
    depth--;
    return part;
  };

  /** @returns {Part} */
  const atom = () => {
    const character = take();
    if (character === "[") return one(characterClass());
    if (glob) return character === "*" ? repeat(one(ANY), 0, Infinity) : one(character === "?" ? ANY : single(character));
    if (character === "(") return group();
    if (character === ".") return one(negated(NEWLINE));
    if (character === "\\") return one(escape());
    return "*+?{^$]}".includes(character) ? refuse() : one(single(character));
  };

  /** How often: {m}, {m,} or {m,n}. */
  const counts = () => {
    const end = text.indexOf("}", at);
    const found = /^(\d{1,4})(,(\d{0,4}))?$/.exec(end < 0 ? "" : text.slice(at, end).join("")) ?? refuse();
    at = end + 1;
    const least = Number(found[1]);
    const most = found[3] ? Number(found[3]) : found[2] ? Infinity : least;
    return most < least ? refuse() : [least, most];
  };

  /** @param {Part} part @returns {Part} */
  const repeated = (part) => {
    if (glob || !sees(REPEATS)) return part;
    const character = take();
    const [least, most] = character === "{" ? counts() : [Number(character === "+"), character === "?" ? 1 : Infinity];
    return sees(REPEATS) ? refuse() : repeat(part, least, most);
  };

  /** @returns {Part} */
  const sequence = () => {
    /** @type {Part[]} */
    const parts = [];
    while (at < text.length && (glob || !sees("|)"))) parts.push(repeated(atom()));
    return () => chain(parts.map((part) => part()));
  };

  /** @returns {Part} */
  const alternatives = () => {
    const parts = [sequence()];
    while (skips("|")) parts.push(sequence());
    return () => parts.map((part) => part()).reduce((union, each) => [union[0] || each[0], union[1] | each[1], union[2] | each[2]]);
  };

  const whole = alternatives();
  if (at < text.length) refuse();
  const [empty, start, end] = whole();

  /** The positions that take a character. */
  const taking = remembered((/** @type {number} */ code) =>
    ranges.reduce((found, taken, i) => (taken.some(([low, high]) => low <= code && code <= high) ? found | (1n << BigInt(i)) : found), 0n),
  );
  /** The positions that may come after any of these. */
  const following = remembered((/** @type {bigint} */ state) => {
    let found = 0n;
    for (const position of positions(state)) found |= follow[position];
    return found;
  });

  /** Whether it matches the whole text. @param {string} given */
  const matches = (given) => {
    const characters = Array.from(given);
    if (characters.length > LONGEST_TEXT) return false;
    if (!characters.length) return empty;
    let next = start;
    let state = 0n;
    for (const character of characters) {
      state = next & taking(codeOf(character));
      if (!state) return false;
      next = following(state);
    }
    return (state & end) !== 0n;
  };
  return { ranges, follow, empty, start, end, matches };
};

/** @param {Ranges} one @param {Ranges} other */
const meet = (one, other) =>
  one.some(([a, b]) => other.some(([c, d]) => {
    const [low, high] = [Math.max(a, c), Math.min(b, d)];
    return low <= high && !(low >= 0xd800 && high <= 0xdfff); // half a surrogate pair is not text
  }));

/**
 * Whether any two patterns can match the same text: a search through pairs of positions.
 * @param {Pattern[]} patterns
 */
export const overlap = (patterns) => {
  let work = 0;
  for (let i = 0; i < patterns.length; i++) {
    for (let j = i + 1; j < patterns.length; j++) {
      const [one, other] = [patterns[i], patterns[j]];
      if (one.empty && other.empty) return true;
      work += one.ranges.length * other.ranges.length;
      const fresh = one.ranges.map((a) => other.ranges.reduce((m, b, at) => (meet(a, b) ? m | (1n << BigInt(at)) : m), 0n));
      const queue = [[one.start, other.start]];
      for (let at = 0; at < queue.length; at++) {
        const [left, right] = queue[at];
        for (const a of positions(left)) {
          work++;
          const found = right & fresh[a];
          fresh[a] &= ~found;
          for (const b of positions(found)) {
            if ((one.end >> BigInt(a)) & (other.end >> BigInt(b)) & 1n) return true;
            queue.push([one.follow[a], other.follow[b]]);
          }
        }
        if (work > MOST_WORK) throw new FormError("patterns");
      }
    }
  }
  return false;
};
