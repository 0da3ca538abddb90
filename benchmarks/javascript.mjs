/**
 * What one answer takes in JavaScript: everything from a signed query to shares, on this machine's Node.
 *
 * `node benchmarks/javascript.mjs [FOLDER]`: @divviup/dap is installed into FOLDER unless it is there
 * already, and its Prio3 histogram of as many buckets is sharded in the same run. The queries are those
 * of the vectors, with the numbers of buckets changed and signed by a key made here. Times are those of
 * the clock and, in brackets, the processor's: on a busy machine only the latter compare.
 */

import { execFileSync } from "node:child_process";
import { generateKeyPairSync, sign } from "node:crypto";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { F64, write } from "../clients/js/src/canonical.js";
import { answer } from "../clients/js/src/device.js";
import { Policy } from "../clients/js/src/policy.js";
import { Ring, keyId } from "../clients/js/src/signing.js";
import { freshState } from "../clients/js/src/state.js";
import { systemWords } from "../clients/js/src/words.js";

const [folder] = process.argv.slice(2);
const BESIDE = "@divviup/dap@0.9.1";
if (folder && !existsSync(`${folder}/node_modules/@divviup/dap`)) {
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--prefix", folder, BESIDE], { stdio: "inherit" });
}
const PROXIES = ["https://one.example", "https://two.example"];
const ORIGIN = 1_700_000_000;
const EVERY = 600;
const MEASURED = 200;

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const owner = "City";
const publicHex = publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("hex");
const ring = await Ring.of([{ owner, public: publicHex, valid_from: 0, valid_until: 2 ** 40, revoked: false }]);

/** @param {number} k @param {number} sizeClass */
const signedQuery = async (k, sizeClass) => {
  const query = write({
    format: "deniable query 1", id: "bench", serial: 1, analyst: owner, question: "", sql: "SELECT a FROM t",
    columns: [{ name: "a", kind: "number", buckets: Array.from({ length: k }, (_, i) => `[${i},${i + 1})`), other: false }],
    schedule: { origin: ORIGIN, expires: ORIGIN + 1e8, every: EVERY, window: EVERY, slide: EVERY },
    proxies: PROXIES, mechanism: { name: "TwoCoin", p: new F64(0.5), q: new F64(0.5) }, sampling: new F64(1), strata: [],
    population: null, minimum_cohort: 100, budget: { epsilon: null, error: null }, rows: "random", most_rows: 1,
    memoize: false, cover: false, size_class: sizeClass, channel: null,
  });
  const signature = sign(null, Buffer.from(`deniable query 1\0${query}`), privateKey).toString("hex");
  return JSON.stringify({ format: "deniable signed query 1", query, key: await keyId(publicHex), signature });
};

/** The median time of a piece of work and its mean processor time, after some to warm up, in milliseconds. @param {number} n @param {(i: number) => Promise<any>} work */
const median = async (n, work) => {
  const times = [];
  let used = process.cpuUsage();
  for (let i = 0; i < n + 20; i++) {
    if (i === 20) used = process.cpuUsage();
    const start = performance.now();
    await work(i);
    if (i >= 20) times.push(performance.now() - start);
  }
  const { user, system } = process.cpuUsage(used);
  const time = times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
  return `${time.toFixed(3)} ms (${((user + system) / 1000 / n).toFixed(3)})`;
};

/** @param {number} k @param {number} sizeClass */
const ours = async (k, sizeClass) => {
  const text = await signedQuery(k, sizeClass);
  const policy = new Policy({ epsilon_per_answer: 10, limits: [], queue_messages: 1e6 }, PROXIES);
  const words = systemWords();
  const state = freshState(null);
  let bytes = 0;
  const time = await median(MEASURED, async (i) => {
    const now = ORIGIN + i * EVERY;
    const { out } = await answer({ state, ring, policy, text, now, words, sourceOf: () => ({ rows: [[i % k]] }) });
    bytes = Object.values(out.shares ?? {}).flat().reduce((n, share) => n + share.length, 0);
    if (out.outcome !== "answered") throw new Error(out.reason);
    Object.assign(state, { queue: [], charges: [], answers: {}, receipts: [] }); // as if all was sent
  });
  return { time, bytes };
};

/** @param {number} k @param {number} chunk */
const prio = async (k, chunk) => {
  const require = createRequire(pathToFileURL(`${folder}/package.json`));
  const { Prio3Histogram } = await import(pathToFileURL(require.resolve("@divviup/prio3")).href);
  const vdaf = new Prio3Histogram({ shares: 2, length: k, chunkLength: chunk });
  let bytes = 0;
  const time = await median(k > 100 ? 20 : 100, async (i) => {
    const nonce = crypto.getRandomValues(new Uint8Array(16));
    const { publicShare, inputShares } = await vdaf.shard(i % k, nonce, crypto.getRandomValues(new Uint8Array(vdaf.randSize)));
    const encoded = [vdaf.encodePublicShare(publicShare), ...inputShares.map((each) => vdaf.encodeInputShare(each))];
    bytes = encoded.reduce((n, each) => n + each.length, 0);
  });
  return { time, bytes };
};

for (const [k, sizeClass, chunk] of [[11, 0, 4], [1024, 2, 32]]) {
  const mine = await ours(k, sizeClass);
  console.log(`${k} buckets, one answer of deniable-client: ${mine.time}, ${mine.bytes} bytes to two proxies`);
  if (!folder) continue;
  const theirs = await prio(k, chunk);
  console.log(`${k} buckets, one Prio3Histogram of @divviup/prio3: ${theirs.time}, ${theirs.bytes} bytes to two aggregators`);
}
