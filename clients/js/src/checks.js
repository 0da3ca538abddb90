/**
 * Checks of a canonical tree's parts, and of what an app sets. A check takes a value and its name; it gives the value, doubles
 * as numbers, or throws a {@link FormError} with its name. docs/queries.md has the rules in words, and
 * `deniable query check` tells an analyst which one is broken.
 */

import { F64, FormError } from "./canonical.js";

/** @template T @typedef {(value: any, name: string) => T} Check */

const LATEST = 2 ** 40; // seconds: some 35,000 years

/** @param {string} name @returns {never} */
export const refuse = (name) => {
  throw new FormError(`${name} is not valid`);
};

/**
 * A check that something holds.
 * @template T
 * @param {(value: any) => boolean} holds
 * @returns {Check<T>}
 */
export const must = (holds) => (value, name) => (holds(value) ? value : refuse(name));

/** A whole number of a canonical tree, which has no others. @param {number} least @param {number} most @returns {Check<number>} */
export const whole = (least, most) => must((value) => typeof value === "number" && value >= least && value <= most);

/** A double above 0 and at most `most`; or, if it is `open`, below it. @param {number} most @returns {Check<number>} */
export const double = (most, open = false) => (value, name) =>
  value instanceof F64 && value.value > 0 && value.value <= most && !(open && value.value === most) ? value.value : refuse(name);

/** A double between 0 and 1, both excluded. */
export const probability = double(1, true);

/** A text that matches a pattern from end to end. @param {RegExp} pattern @returns {Check<string>} */
export const like = (pattern) => must((value) => typeof value === "string" && pattern.test(value));

/**
 * One of these values.
 * @template T
 * @param {...T} known
 * @returns {Check<T>}
 */
export const one = (...known) => must((value) => known.includes(value));

/** Anything: it is checked later. @type {Check<any>} */
export const any = (value) => value;
/** @type {Check<boolean>} */
export const flag = one(true, false);
/** @type {Check<number>} */
export const time = whole(0, LATEST);
/** @type {Check<number>} */
export const seconds = whole(1, LATEST);
/** A public key. */
export const key = like(/^[0-9a-f]{64}$/);

// Control characters, half surrogates, separators of lines and paragraphs, and what turns the reading direction.
const HIDDEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

/**
 * A text of at most `longest` characters that people can read; `lines` allows line breaks and tabs.
 * @param {number} longest
 * @returns {Check<string>}
 */
export const text = (longest, { empty = false, lines = false } = {}) =>
  must(
    (value) =>
      typeof value === "string" &&
      Array.from(value).length <= longest &&
      (empty || /\P{White_Space}/u.test(value)) &&
      !HIDDEN.test(lines ? value.replace(/[\n\t]/g, "") : value),
  );

/**
 * @template T
 * @param {Check<T>} check
 * @returns {Check<T | null>}
 */
export const orNull = (check) => (value, name) => (value === null ? null : check(value, name));

/**
 * A list of `least` to `most` parts.
 * @template T
 * @param {Check<T>} check
 * @returns {Check<T[]>}
 */
export const list = (check, least = 0, most = Infinity) => (value, name) =>
  Array.isArray(value) && value.length >= least && value.length <= most
    ? value.map((part, i) => check(part, `${name}[${i}]`))
    : refuse(name);

/** A table of any keys. @type {Check<{[key: string]: any}>} */
export const table = must((value) => typeof value === "object" && value && !Array.isArray(value) && !(value instanceof F64));

/**
 * A table with these keys: all that are required, and of the others none, or some. With `open`, keys
 * that are not known are passed over.
 * @template {{[key: string]: Check<any>}} R
 * @template {{[key: string]: Check<any>}} O
 * @param {R} required @param {O} optional
 * @returns {Check<{[K in keyof R]: ReturnType<R[K]>} & {[K in keyof O]?: ReturnType<O[K]>}>}
 */
export const shape = (required, optional, open = false) => (value, name) => {
  /** @type {any} */
  const out = {};
  const given = table(value, name);
  for (const part of new Set([...Object.keys(given), ...Object.keys(required)])) {
    const at = name ? `${name}.${part}` : part;
    const check = Object.hasOwn(required, part) ? required[part] : Object.hasOwn(optional, part) && optional[part];
    if (check && part in given) out[part] = check(given[part], at);
    else if (check || !open) refuse(at);
  }
  return out;
};

/** Refuse a list with the same text twice. @param {string} name @param {string[]} texts */
export const different = (name, texts) => {
  if (new Set(texts).size < texts.length) refuse(name);
};
