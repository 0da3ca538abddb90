/** Queries signed by a key made here, and proxies that remember what reaches them. */

import { generateKeyPairSync, sign } from "node:crypto";
import { F64, write } from "../src/canonical.js";
import { keyId } from "../src/signing.js";
import { Words } from "../src/words.js";

export const PROXIES = ["https://one.example", "https://two.example"];
export const ORIGIN = 1_700_000_000;
export const EVERY = 600;
const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const publicHex = publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("hex");
export const RING = [{ owner: "City", public: publicHex, valid_from: 0, valid_until: 2 ** 40, revoked: false }];
export const KEY = await keyId(publicHex);

/** @param {{[name: string]: any}} [changes] */
export const signedQuery = (changes = {}) => {
  const query = write({
    format: "deniable query 1", id: "trips", serial: 1, analyst: "City", question: "How far?", sql: "SELECT distance FROM trips",
    columns: [{ name: "distance", kind: "number", buckets: ["[0,1)", "[1,2)", "[2,5)", "[5,inf)"], other: true }],
    schedule: { origin: ORIGIN, expires: ORIGIN + 1e7, every: EVERY, window: EVERY, slide: EVERY },
    proxies: PROXIES, mechanism: { name: "TwoCoin", p: new F64(0.5), q: new F64(0.5) }, sampling: new F64(1), strata: [],
    population: null, minimum_cohort: 100, budget: { epsilon: null, error: null }, rows: "random", most_rows: 1,
    memoize: false, cover: false, size_class: 0, channel: null, ...changes,
  });
  const signature = sign(null, Buffer.from(`deniable query 1\0${query}`), privateKey).toString("hex");
  return JSON.stringify({ format: "deniable signed query 1", query, key: KEY, signature });
};

/** Words that are the same for the same seed. @param {number} seed */
export const seededWords = (seed) => {
  let x = BigInt(seed) * 0x9e3779b97f4a7c15n + 1n;
  return new Words(() => {
    const block = new DataView(new ArrayBuffer(4096));
    for (let at = 0; at < 4096; at += 8) {
      x = BigInt.asUintN(64, x * 6364136223846793005n + 1442695040888963407n);
      block.setBigUint64(at, BigInt.asUintN(64, (x ^ (x >> 29n)) * 0xbf58476d1ce4e5b9n), true);
    }
    return new Uint8Array(block.buffer);
  });
};

/** Proxies that list these queries and take everything. @param {string[]} queries */
export const fakeTransport = (queries) => {
  /** @type {any[]} */
  const seen = [];
  return {
    seen,
    queries,
    /** @type {number | null} */
    skew: 0,
    /** @type {string[]} */
    revoked: [],
    /** @type {Error | null} */
    failure: null,
    async poll(/** @type {string} */ proxy) {
      seen.push({ kind: "poll", proxy });
      return { queries: this.queries, skew: this.skew, revoked: this.revoked };
    },
    async send(/** @type {string} */ proxy, /** @type {string} */ token, /** @type {Uint8Array} */ body) {
      if (this.failure) throw this.failure;
      seen.push({ kind: "send", proxy, token, body });
    },
    async enrol(/** @type {string} */ proxy) {
      seen.push({ kind: "enrol", proxy });
      return `a token for ${proxy}`;
    },
  };
};
