/** Draws. A word is 64 random bits. Comparisons are added up rather than branched on. */

const BULK = 1 << 14; // bytes: `getRandomValues` gives at most 65,536 at a time
const MASK = (1n << 64n) - 1n;

/** A stream of words; `more` gives the bytes. */
export class Words {
  /** @param {(n: number) => Uint8Array} more at least n bytes, of whole words */
  constructor(more) {
    this.more = more;
    /** @type {DataView<ArrayBufferLike>} */
    this.block = new DataView(new ArrayBuffer(0));
    this.at = 0;
  }

  /** The next 8 bytes, little-endian. */
  word() {
    if (this.at + 8 > this.block.byteLength) {
      const bytes = this.more(8);
      this.block = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      this.at = 0;
    }
    this.at += 8;
    return this.block.getBigUint64(this.at - 8, true);
  }

  /**
   * 1 with probability t / 2^64.
   * @param {bigint} t
   */
  coin(t) {
    return Number(this.word() < t);
  }

  /**
   * Uniform on 0 … m - 1.
   * @param {number} m
   */
  below(m) {
    const bound = BigInt(m);
    const least = (MASK + 1n) % bound;
    for (;;) {
      const product = this.word() * bound;
      if ((product & MASK) >= least) return Number(product >> 64n);
    }
  }

  /**
   * How many of the cumulative weights are at most the next word.
   * @param {bigint[]} edges
   */
  pick(edges) {
    const word = this.word();
    return edges.reduce((reached, t) => reached + Number(word >= t), 0);
  }

  /**
   * `size` of the places 0 … width - 1, every choice equally likely, as bits.
   * @param {number} width
   * @param {number} size
   */
  subset(width, size) {
    const bits = new Uint8Array(width);
    let left = size;
    for (let place = 0; place < width; place++) {
      bits[place] = Number(this.below(width - place) < left);
      left -= bits[place];
    }
    return bits;
  }

  /**
   * The bytes of whole words; of the last one, those that are not needed are dropped.
   * @param {number} n
   */
  bytes(n) {
    const out = new Uint8Array(n);
    for (let at = 0; at < n; at += 8) {
      out.set(new Uint8Array(BigUint64Array.of(this.word()).buffer).subarray(0, n - at), at); // on a little-endian platform, as all are
    }
    return out;
  }

  /**
   * Up to `most` of the numbers 0 … n - 1: the first steps of a shuffle.
   * @param {number} n
   * @param {number} most
   */
  some(n, most) {
    const places = Array.from({ length: n }, (_, i) => i);
    for (let i = 0; i < Math.min(n, most); i++) {
      if (n - i > 1) {
        const j = i + this.below(n - i);
        [places[i], places[j]] = [places[j], places[i]];
      }
    }
    return places.slice(0, most);
  }
}

/** Words from the platform's cryptographic source, drawn in bulk. */
export const systemWords = () => new Words(() => crypto.getRandomValues(new Uint8Array(BULK)));

/**
 * Words that play back the given bytes: for vectors.
 * @param {Uint8Array} script
 */
export const scriptedWords = (script) => {
  let given = false;
  return new Words(() => {
    if (given || !script.length) throw new RangeError("the random bytes are used up");
    given = true;
    return script;
  });
};
