/**
 * Ed25519 verification (RFC 8032): by the platform where it can, otherwise by the few lines below.
 * They verify public data with public keys and hold no secret, so their time may vary.
 */

import { digest, integer } from "./bytes.js";

const P = 2n ** 255n - 19n;
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;

/** @param {bigint} a */
const mod = (a) => ((a % P) + P) % P;

/** @param {bigint} base @param {bigint} exponent */
const power = (base, exponent) => {
  let out = 1n;
  for (; exponent; exponent >>= 1n) {
    if (exponent & 1n) out = mod(out * base);
    base = mod(base * base);
  }
  return out;
};

/** @param {bigint} a */
const inverse = (a) => power(a, P - 2n);
const D = mod(-121665n * inverse(121666n));
const ROOT = power(2n, (P - 1n) / 4n); // of -1

/** @typedef {[bigint, bigint, bigint, bigint]} Point in extended coordinates: X, Y, Z, T */

/** @param {Point} p @param {Point} q @returns {Point} */
const add = ([x1, y1, z1, t1], [x2, y2, z2, t2]) => {
  const a = (y1 - x1) * (y2 - x2);
  const b = (y1 + x1) * (y2 + x2);
  const c = mod(2n * D * t1) * t2;
  const d = 2n * z1 * z2;
  const [e, f, g, h] = [mod(b - a), mod(d - c), mod(d + c), mod(b + a)];
  return [mod(e * f), mod(g * h), mod(f * g), mod(e * h)];
};

/** @param {Point} point @param {bigint} n @returns {Point} */
const multiply = (point, n) => {
  /** @type {Point} */
  let out = [0n, 1n, 1n, 0n];
  for (; n; n >>= 1n) {
    if (n & 1n) out = add(out, point);
    point = add(point, point);
  }
  return out;
};

/** @param {Uint8Array} bytes @returns {Point | null} */
const decode = (bytes) => {
  const sign = BigInt(bytes[31] >> 7);
  const y = integer(bytes) & ((1n << 255n) - 1n);
  if (y >= P) return null;
  const square = mod((y * y - 1n) * inverse(mod(D * y * y + 1n)));
  let x = power(square, (P + 3n) / 8n);
  if (mod(x * x) !== square) x = mod(x * ROOT);
  if (mod(x * x) !== square || (!x && sign)) return null;
  if ((x & 1n) !== sign) x = P - x;
  return [x, y, 1n, mod(x * y)];
};

/** The integer that a point's bytes write. @param {Point} point */
const encode = ([x, y, z]) => {
  const scale = inverse(z);
  return mod(y * scale) | ((mod(x * scale) & 1n) << 255n);
};

const BASE = /** @type {Point} */ (decode(Uint8Array.from({ length: 32 }, (_, i) => (i ? 0x66 : 0x58))));

/**
 * Whether this is the key's signature of the content, without the platform's help.
 * @param {Uint8Array} key @param {Uint8Array} signature @param {Uint8Array} content
 */
export const verifyPlainly = async (key, signature, content) => {
  if (key.length !== 32 || signature.length !== 64) return false;
  const [r, s] = [signature.subarray(0, 32), integer(signature.subarray(32))];
  const a = decode(key);
  if (!a || s >= ORDER) return false;
  const k = integer(await digest("SHA-512", r, key, content)) % ORDER;
  const minus = /** @type {Point} */ ([mod(-a[0]), a[1], 1n, mod(-a[3])]);
  return encode(add(multiply(BASE, s), multiply(minus, k))) === integer(r);
};

/** @type {boolean | undefined} */
let builtIn;

/**
 * Whether this is the key's signature of the content.
 * @param {Uint8Array} key @param {Uint8Array} signature @param {Uint8Array} content
 */
export const verify = async (key, signature, content) => {
  if (builtIn !== false) {
    try {
      const [raw, said, bytes] = /** @type {BufferSource[]} */ ([key, signature, content]);
      const known = await crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]);
      builtIn = true;
      return await crypto.subtle.verify("Ed25519", known, said, bytes);
    } catch {
      if (builtIn) return false; // the platform knows the algorithm, and not this key
      builtIn = false;
    }
  }
  return verifyPlainly(key, signature, content);
};
