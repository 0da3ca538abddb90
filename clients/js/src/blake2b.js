/** BLAKE2b with a key and a digest of 32 bytes (RFC 7693). */

import { concat, unhex } from "./bytes.js";
import { add, bytesOf, halvesOf, rotate, xor } from "./halves.js";

const IV = halvesOf(unhex(
  "08c9bcf367e6096a3ba7ca8485ae67bb2bf894fe72f36e3cf1361d5f3af54fa5d182e6ad7f520e511f6c3e2b8c68059b6bbd41fbabd9831f79217e1319cde05b",
));
const SIGMA = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
].map((row) => Array.from(row, (digit) => 2 * parseInt(digit, 16)));
const ROUNDS = 12;
const BLOCK = 128;
const DIGEST = 32;

const v = new Uint32Array(32);

/** Half of a round's function G. @param {number[]} places @param {Uint32Array} m @param {number} word @param {number} first @param {number} second */
const mix = ([a, b, c, d], m, word, first, second) => {
  add(v, a, v, b);
  add(v, a, m, word);
  xor(v, d, a);
  rotate(v, d, first);
  add(v, c, v, d);
  xor(v, b, c);
  rotate(v, b, second);
};

/** Four columns, then four diagonals: the places of the words that are mixed. */
const PLACES = Array.from({ length: 8 }, (_, i) => [0, 1, 2, 3].map((row) => 8 * row + 2 * ((i + (i >> 2) * row) & 3)));

/** @param {Uint32Array} h @param {Uint8Array} block @param {number} count @param {boolean} last */
const compress = (h, block, count, last) => {
  v.set(h);
  v.set(IV, 16);
  v[24] ^= count;
  if (last) {
    v[28] = ~v[28];
    v[29] = ~v[29];
  }
  const m = halvesOf(block);
  for (let round = 0; round < ROUNDS; round++) {
    PLACES.forEach((places, i) => {
      const words = SIGMA[round % 10];
      mix(places, m, words[2 * i], 32, 40);
      mix(places, m, words[2 * i + 1], 48, 1);
    });
  }
  for (let i = 0; i < 16; i++) h[i] ^= v[i] ^ v[i + 16];
};

/**
 * Read bytes that are whole blocks or, if they are the last ones, any.
 * @param {Uint32Array} h @param {Uint8Array} bytes @param {number} before how many were read already @param {boolean} last
 */
const read = (h, bytes, before, last) => {
  for (let at = 0; at < bytes.length; at += BLOCK) {
    const block = new Uint8Array(BLOCK);
    block.set(bytes.subarray(at, at + BLOCK));
    const end = Math.min(at + BLOCK, bytes.length);
    compress(h, block, before + end, last && end === bytes.length);
  }
};

/** A hash that has read the key and a prefix, and gives the digest with an end. @param {Uint8Array} key @param {Uint8Array} prefix */
export const keyedHash = (key, prefix) => {
  const begun = IV.slice();
  begun[0] ^= 0x01010000 ^ (key.length << 8) ^ DIGEST;
  const head = concat(key, new Uint8Array(BLOCK - key.length), prefix);
  const n = head.length - (head.length % BLOCK || BLOCK); // the last block waits: it is compressed differently
  read(begun, head.subarray(0, n), 0, false);
  return (/** @type {Uint8Array} */ end) => {
    const h = begun.slice();
    read(h, concat(head.subarray(n), end), n, true);
    return bytesOf(h).slice(0, DIGEST);
  };
};
