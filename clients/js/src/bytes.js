/** Bytes: hexadecimal digits, UTF-8, little-endian numbers. */

const encoder = new TextEncoder();

/** @param {Uint8Array} bytes */
export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The bytes that pairs of hexadecimal digits write. @param {string} digits */
export const unhex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** @param {string} text */
export const utf8 = (text) => encoder.encode(text);

/**
 * Whether a text has a UTF-8 form: no half of a surrogate pair.
 * @param {string} text
 */
export const isText = (text) => !/\p{Cs}/u.test(text);

/** @param {...Uint8Array} parts */
export const concat = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));

/**
 * A whole number in `n` little-endian bytes; a negative one as its two's complement.
 * @param {number} value
 * @param {number} n
 */
export const little = (value, n) => Uint8Array.from({ length: n }, (_, i) => Math.floor(value / 256 ** i));

/** How texts, or digits, compare. @param {string} a @param {string} b */
export const compare = (a, b) => (a < b ? -1 : Number(a > b));

/**
 * SHA-256 or SHA-512, of the platform.
 * @param {"SHA-256" | "SHA-512"} name
 * @param {...Uint8Array} parts
 */
export const digest = async (name, ...parts) =>
  new Uint8Array(await crypto.subtle.digest(name, concat(...parts)));

/** What a text says as JSON; null if it is none. @param {string} text */
export const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};

/** @param {Uint8Array} bytes little-endian */
export const integer = (bytes) => bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);

/** The first character's number. @param {string} text */
export const codeOf = (text) => Number(text.codePointAt(0));

const bits = new DataView(new ArrayBuffer(8));

/** The 64 bits of a double. @param {number} value */
export const bitsOf = (value) => {
  bits.setFloat64(0, value);
  return bits.getBigInt64(0);
};

/** The double with these 64 bits. @param {bigint} value */
export const doubleOf = (value) => {
  bits.setBigInt64(0, value);
  return bits.getFloat64(0);
};

/** The next double above one. @param {number} value */
export const above = (value) => {
  if (value === Infinity || !value) return value || Number.MIN_VALUE;
  return doubleOf(bitsOf(value) + (value > 0 ? 1n : -1n));
};
