/** SipHash-2-4 (Aumasson and Bernstein 2012). */

import { utf8 } from "./bytes.js";
import { add, bytesOf, halvesOf, rotate, xor } from "./halves.js";

const START = halvesOf(utf8("uespemosmodnarodarenegylsetybdet"));

/** v[a] += v[b]; v[b] is turned by n and takes v[a] in. @param {Uint32Array} v @param {number} a @param {number} b @param {number} n */
const step = (v, a, b, n) => {
  add(v, a, v, b);
  rotate(v, b, n);
  xor(v, b, a);
};

/** @param {Uint32Array} v @param {number} times */
const rounds = (v, times) => {
  for (; times; times--) {
    step(v, 0, 2, 13);
    rotate(v, 0, 32);
    step(v, 4, 6, 16);
    step(v, 0, 6, 21);
    step(v, 4, 2, 17);
    rotate(v, 4, 32);
  }
};

/**
 * The 8 bytes of the hash.
 * @param {Uint8Array} key 16 bytes
 * @param {Uint8Array} data
 */
export const siphash = (key, data) => {
  const keys = halvesOf(key);
  const v = Uint32Array.from(START, (word, i) => word ^ keys[i % 4]);
  const padded = new Uint8Array(data.length - (data.length % 8) + 8);
  padded.set(data);
  padded[padded.length - 1] = data.length;
  const words = halvesOf(padded);
  for (let at = 0; at < words.length; at += 2) {
    v[6] ^= words[at];
    v[7] ^= words[at + 1];
    rounds(v, 2);
    v[0] ^= words[at];
    v[1] ^= words[at + 1];
  }
  v[4] ^= 0xff;
  rounds(v, 4);
  for (const part of [2, 4, 6]) xor(v, 0, part);
  return bytesOf(v.subarray(0, 2));
};
