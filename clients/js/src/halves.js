/** Words of 64 bits as pairs of 32, the lower half first, in an array: several times as fast as big integers. */

/** v[a] += u[b]. @param {Uint32Array} v @param {number} a @param {Uint32Array} u @param {number} b */
export const add = (v, a, u, b) => {
  const low = v[a] + u[b];
  v[a + 1] += u[b + 1] + Number(low > 0xffffffff);
  v[a] = low;
};

/** v[a] ^= v[b]. @param {Uint32Array} v @param {number} a @param {number} b */
export const xor = (v, a, b) => {
  v[a] ^= v[b];
  v[a + 1] ^= v[b + 1];
};

/** v[a] rotated left by n. @param {Uint32Array} v @param {number} a @param {number} n */
export const rotate = (v, a, n) => {
  const low = v[n < 32 ? a : a + 1];
  const high = v[n < 32 ? a + 1 : a];
  const by = n % 32; // a shift by 32 would be one by 0
  v[a] = (low << by) | (by && high >>> (32 - by));
  v[a + 1] = (high << by) | (by && low >>> (32 - by));
};

// Every platform that runs JavaScript is little-endian, as the bytes of both hashes are.
/** The words in some bytes. @param {Uint8Array} bytes */
export const halvesOf = (bytes) => new Uint32Array(bytes.slice().buffer);
/** The bytes of some words. @param {Uint32Array} halves */
export const bytesOf = (halves) => new Uint8Array(halves.slice().buffer);
