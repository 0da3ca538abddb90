import assert from "node:assert/strict";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { F64 } from "../src/canonical.js";
import { Policy } from "../src/policy.js";
import { WAYS_OUT } from "../src/sql/confinement.js";
import { sqlRows } from "../src/sql/index.js";
import { EVERY, PROXIES, seededWords, signedQuery } from "./helpers.js";
import { GRANT, skip, sqlDevice, sqlite } from "./sqlite.js";

// A report that is almost surely the true answer: with 5 buckets and epsilon 30 it differs less than once in 10^12.
const LOUD = { mechanism: { name: "DirectEncoding", epsilon: new F64(30) } };
const OTHER = 4;

let n = 0;
/** The bucket that is reported, or why there is none. @param {import("../src/index.js").Client} me @param {string} sql @param {object} [changes] */
const asked = async (me, sql, changes = {}) => {
  const state = structuredClone(await me.change((kept) => kept));
  const { receipt, out } = await me.walk(state, signedQuery({ id: `q${n++}`, sql, ...LOUD, ...changes }), me.now);
  return out.reports ? out.reports.map((report) => report[0]) : receipt.reason || receipt.outcome;
};

test("SQL sees what was granted and nothing else", { skip }, async () => {
  const { me } = await sqlDevice();
  for (const distance of [0.5, 1.5, 7]) await me.record("trips", { distance, city: "Lyon", secret: 1 });
  await me.record("diary", { page: 1 });
  assert.deepEqual(await asked(me, "SELECT max(distance) FROM trips"), [3]);
  assert.deepEqual(await asked(me, "SELECT count(*) FROM trips WHERE city = 'Lyon'"), [2]);
  assert.deepEqual(await asked(me, `SELECT count(*) + 4 FROM trips WHERE recorded_at = ${me.now}`), [3]);
  for (const sql of ["SELECT secret FROM trips", "SELECT page FROM diary", "SELECT rowid FROM trips", "SELECT name FROM sqlite_master"]) {
    assert.equal(await asked(me, sql), "not shared", sql);
  }
});

test("what is not one allowed SELECT is refused before anything is drawn", { skip }, async () => {
  const { me } = await sqlDevice();
  const forbidden = [
    "SELECT random()", "SELECT 1; SELECT 2", "PRAGMA user_version", "ATTACH 'x' AS y", "DELETE FROM trips", "SELECT load_extension('x')",
    "SELECT current_timestamp", "SELECT hex(1)", "SELECT ?", "SELECT zeroblob(9)", "SELECT sqlite_version()", "SELECT FROM",
    "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT max(x) FROM a",
    `SELECT ${"(".repeat(100)}1${")".repeat(100)} + 1 ${"+ 1".repeat(100)}`,
  ];
  for (const sql of forbidden) assert.equal(await asked(me, sql), "forbidden SQL", sql.slice(0, 60));
  assert.equal(await asked(me, "SELECT 1, 2"), "columns");
  assert.equal(await asked(me, `SELECT '${"a".repeat(9000)}'`), "unusable query");
});

test("a failure of any kind is an answer", { skip }, async () => {
  const { me } = await sqlDevice({ maxRows: 5, maxMemory: 4 << 20 });
  for (let i = 0; i < 60; i++) await me.record("trips", { distance: 0.5, city: "x".repeat(3000) });
  const failing = [
    "SELECT abs(-9223372036854775807 - 1)", "SELECT date('now') FROM trips", "SELECT distance FROM trips", "SELECT CAST('a' AS BLOB)",
    "SELECT length(max(a.city || b.city || c.city || d.city || e.city || f.city || g.city || h.city)) FROM trips a, trips b, trips c, trips d, trips e, trips f, trips g, trips h",
    "SELECT count(*) FROM (SELECT a.city || b.city AS x FROM trips a, trips b ORDER BY x, a.distance)",
  ];
  for (const sql of failing) assert.deepEqual(await asked(me, sql), [OTHER], sql.slice(0, 60));
});

test("a query that takes too long is stopped, compiling or running", { skip }, async () => {
  const { me } = await sqlDevice({}, { policy: { epsilon_per_answer: 100, limits: [], upload_within: 0, deadline: 0.5 } });
  for (let i = 0; i < 100; i++) await me.record("trips", { distance: 0.5, city: "a" });
  const crossed = Array.from("abcdefgh", (name) => `trips ${name}`).join(", ");
  assert.deepEqual(await asked(me, `SELECT count(*) * 0 FROM ${crossed} WHERE a.distance + b.distance + c.distance + d.distance + e.distance + f.distance + g.distance + h.distance > 9`), [OTHER]);
  const patterns = `SELECT count(*) * 0 FROM ${crossed} WHERE a.city || h.city || '${"a".repeat(200)}' LIKE '${"%a".repeat(60)}b'`;
  assert.deepEqual(await asked(me, patterns), [OTHER]);
  const levels = Array.from({ length: 40 }, (_, i) => `, t${i + 1} AS (SELECT a.x FROM t${i} a, t${i} b)`).join("");
  assert.equal(await asked(me, `WITH t0 AS (SELECT 1 AS x)${levels} SELECT count(*) FROM t40`), "forbidden SQL");
});

test("where answers have a slot, the time and the size of an answer do not depend on the data", { skip }, async () => {
  const { rows, me } = await sqlDevice({ maxRows: 5 });
  const policy = new Policy({ deadline: 0.5 }, PROXIES);
  const { query } = await (await import("../src/signing.js")).authenticate(me.ring, signedQuery({ rows: "several", most_rows: 3 }), me.now);
  for (const count of [0, 1, 50]) {
    await me.change((state) => void (state.values.trips = Array.from({ length: count }, () => ({ time: 1, row: { distance: 0.5 } }))));
    const source = await rows(query, await me.change((state) => state), policy);
    assert.ok(source && "find" in source);
    const start = performance.now();
    const found = await source.find(seededWords(3), 0);
    assert.ok(performance.now() - start >= 2490, "it was over before its time");
    assert.deepEqual(found.map((set) => set.length), [1, 1, 1]);
    if (count === 1) assert.deepEqual(found, [[0], [OTHER], [OTHER]]);
    else assert.deepEqual(found, [[OTHER], [OTHER], [OTHER]]);
  }
});

test("what can be observed is the same for different data under the same coins, except the report", { skip }, async () => {
  for (const shape of [{}, { rows: "aggregate" }, { memoize: true, distinct: 2 }, { mechanism: { name: "TwoCoin", p: new F64(0.5), q: new F64(0.5) }, ones: 2, rows: "all" }]) {
    /** @type {any[]} */
    const observed = [];
    for (const distances of [[0.5, 0.5], [7, -7], [null, 1e300]]) {
      const { me, transport, time } = await sqlDevice({}, { words: seededWords(7) });
      for (const distance of distances) await me.record("trips", { distance });
      const receipts = [];
      for (let epoch = 0; epoch < 2; epoch++) {
        // An integer that is too large is an error for some of the data.
        receipts.push(...(await me.answerAll([signedQuery({ sql: "SELECT distance + (CASE WHEN distance > 5 THEN abs(-9223372036854775807 - 1) ELSE 0 END) FROM trips", ...shape })])));
        time.now += EVERY;
      }
      const state = await me.change((kept) => kept);
      observed.push({
        receipts,
        charges: state.charges.map(({ scope, ...charge }) => charge),
        decided: state.decided,
        seen: transport.seen.map(({ body, ...each }) => ({ ...each, bytes: body?.length })),
      });
    }
    for (const each of observed.slice(1)) assert.deepEqual(each, observed[0], JSON.stringify(shape));
  }
});

test("a confined worker has no way out", async () => {
  const code = `
    const { parentPort } = require("node:worker_threads");
    const post = parentPort.postMessage.bind(parentPort);
    import(${JSON.stringify(new URL("../src/sql/confinement.js", import.meta.url).href)}).then(({ confine, WAYS_OUT }) => {
      const before = WAYS_OUT.filter((name) => globalThis[name] !== undefined);
      confine();
      post({ before, after: Object.getOwnPropertyNames(globalThis).filter((name) => globalThis[name] !== undefined) });
    });`;
  const worker = new Worker(code, { eval: true });
  const { before, after } = await new Promise((resolve) => worker.once("message", resolve));
  await worker.terminate();
  assert.ok(before.includes("fetch") && before.includes("process"), "there was nothing to remove");
  assert.deepEqual(after.filter((/** @type {string} */ name) => WAYS_OUT.includes(name) || /[sS]ocket|Event|Message|setTimeout/.test(name)), []);
});

test("a grant that is none, and SQLite that is not there, are errors at once", { skip }, async () => {
  for (const grant of [{ trips: {} }, { "x y": { a: "REAL" } }, { trips: { sqlite_a: "REAL" } }, { trips: { a: "BLOB" } }]) {
    await assert.rejects(sqlRows({ grant: /** @type {any} */ (grant), sqlite }), TypeError);
  }
  await assert.rejects(sqlRows({ grant: GRANT, sqlite: "file:///nowhere.mjs" }), /SQLite cannot be started/);
  await assert.rejects(sqlRows({ grant: GRANT, sqlite, maxMemory: 1 }), RangeError);
});
