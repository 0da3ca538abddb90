/**
 * Canonical bytes: the only way to write a query, so that a signature covers its exact meaning.
 *
 * JSON in UTF-8 without spaces, keys in the order of their code points. Integers are decimal. A
 * double is `{"f64":"3fe0000000000000"}`, its bits in hexadecimal digits, and an {@link F64} here,
 * so that 1 and 1.0 stay two things.
 */

import { bitsOf, compare, doubleOf, hex, isText, parsed, utf8 } from "./bytes.js";

/** A double in a canonical tree. */
export class F64 {
  /** @param {number} value */
  constructor(value) {
    this.value = value;
  }
}

/** @typedef {{[key: string]: Tree}} Table */
/** @typedef {null | boolean | string | number | bigint | F64 | any[] | Table} Tree */

/** What is not a query, or not in canonical form: the message names the part that breaks a rule. */
export class FormError extends Error {}

const DEEPEST = 100;

/** Texts in the order of their code points, which is that of their UTF-8 bytes. @param {string} a @param {string} b */
export const byCodePoint = (a, b) => compare(hex(utf8(a)), hex(utf8(b)));

/** A text as JSON writes it: only quotation marks, backslashes and control characters escaped. @param {string} text */
const quoted = (text) => {
  if (!isText(text)) throw new FormError();
  return JSON.stringify(text);
};

/** The canonical text of a tree. @param {Tree} tree @returns {string} */
export const write = (tree) => {
  if (tree instanceof F64) return `{"f64":"${BigInt.asUintN(64, bitsOf(tree.value)).toString(16).padStart(16, "0")}"}`;
  if (typeof tree === "string") return quoted(tree);
  if (Array.isArray(tree)) return `[${tree.map(write).join(",")}]`;
  if (tree === null || typeof tree !== "object") return String(tree);
  const keys = Object.keys(tree).sort(byCodePoint);
  return `{${keys.map((key) => `${quoted(key)}:${write(tree[key])}`).join(",")}}`;
};

/** @param {Tree} tree */
export const encode = (tree) => utf8(write(tree));

/** @param {{[key: string]: Tree}} table */
const double = (table) => {
  const digits = table.f64;
  if (Object.keys(table).length > 1 || typeof digits !== "string" || !/^[0-9a-f]{16}$/.test(digits)) {
    throw new FormError();
  }
  const value = doubleOf(BigInt.asIntN(64, BigInt(`0x${digits}`)));
  if (!Number.isFinite(value)) throw new FormError();
  return new F64(value);
};

/** A tree from what JSON.parse gives, in which numbers are integers and doubles are tables. @param {any} value @param {number} depth @returns {Tree} */
const restored = (value, depth) => {
  if (depth > DEEPEST || (typeof value === "number" && !Number.isSafeInteger(value))) throw new FormError();
  if (Array.isArray(value)) return value.map((part) => restored(part, depth + 1));
  if (value === null || typeof value !== "object") return value;
  if (Object.hasOwn(value, "f64")) return double(value);
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, restored(part, depth + 1)]));
};

/**
 * The tree that a canonical text writes; any other spelling is refused, as two spellings would be two
 * signatures. That the tree is written as the same text shows at once that no key is there twice or out
 * of order, and that no number has a point. No rule of queries allows an integer of 2^53 or more.
 * @param {string} text
 * @returns {Tree}
 */
export const read = (text) => {
  const tree = restored(parsed(text), 0);
  if (write(tree) !== text) throw new FormError();
  return tree;
};

/**
 * The shortest decimal that reads back as a double, as ranges are written: whole numbers below 2^53
 * without a point; from 1e16 on, and below 0.0001, with an exponent of at least two digits and its sign.
 * @param {number} value
 */
export const decimal = (value) => {
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  if (Number.isInteger(value) && Math.abs(value) < 2 ** 53) return String(value);
  const [mantissa, power] = value.toExponential().split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < 16) {
    const plain = String(value);
    return plain.includes(".") ? plain : `${plain}.0`;
  }
  const digits = String(Math.abs(exponent)).padStart(2, "0");
  return `${mantissa}e${exponent < 0 ? "-" : "+"}${digits}`;
};
