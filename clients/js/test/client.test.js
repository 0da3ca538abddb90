import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { F64 } from "../src/canonical.js";
import { ProxyError, Refusal, StoreError, memoryStore, open } from "../src/index.js";
import { fileStore } from "../src/stores/file.js";
import { EVERY, KEY, ORIGIN, PROXIES, RING, fakeTransport, seededWords, signedQuery } from "./helpers.js";

/** A device at the beginning of epoch 10. @param {string[]} queries @param {object} [options] */
const device = async (queries, options = {}) => {
  const transport = fakeTransport(queries);
  const time = { now: ORIGIN + 10 * EVERY };
  const me = await open({
    proxies: PROXIES, ring: RING, transport, store: memoryStore(), clock: () => time.now * 1000, firstEpoch: "now",
    policy: { epsilon_per_answer: 20, limits: [] }, ...options,
  });
  return { me, transport, time };
};

/** @param {any[]} receipts */
const outcomes = (receipts) => receipts.map(({ outcome, reason }) => reason || outcome);

test("an answer is enrolled for, uploaded when it is due, and charged once", async () => {
  const { me, transport, time } = await device([signedQuery()]);
  await me.record("trips", { distance: 3.2 });
  assert.deepEqual(outcomes(await me.answerAll()), ["answered"]);
  assert.equal(transport.seen.filter(({ kind }) => kind === "send").length, 0, "nothing leaves before its slot is over");
  time.now = Number(await me.nextDue());
  assert.deepEqual(outcomes(await me.answerAll()), ["again"]);
  const sent = transport.seen.filter(({ kind }) => kind === "send");
  assert.deepEqual(sent.map(({ proxy, token }) => [proxy, token]), PROXIES.map((proxy) => [proxy, `a token for ${proxy}`]));
  assert.equal(await me.nextDue(), null);
  assert.equal(await me.change((state) => state.charges.length), 1);
});

const DATA = [[0.5, 0.5], [7, 7], [null, "text"], [1e300, -3]];

/** All that can be seen of a device over three epochs, except the reports. @param {object} shape @param {any[]} distances @param {object} [options] */
const observed = async (shape, distances, options = {}) => {
  const { me, transport, time } = await device([signedQuery(shape)], { words: seededWords(7), ...options });
  for (const distance of distances) await me.record("trips", { distance });
  const receipts = [];
  for (let epoch = 0; epoch < 3; epoch++) {
    receipts.push(...(await me.answerAll()));
    time.now += EVERY;
  }
  await me.upload();
  const state = await me.change((kept) => kept);
  return {
    receipts,
    charges: state.charges.map(({ scope, ...charge }) => charge),
    decided: state.decided,
    waiting: state.queue.map(({ record, message, ...share }) => share),
    seen: transport.seen.map(({ body, ...each }) => ({ ...each, bytes: body?.length })),
  };
};

test("what can be observed is the same for different data under the same coins, except the report", async () => {
  const memo = { memoize: true, distinct: 2 };
  const shapes = [
    {},
    { sampling: new F64(0.5), cover: true },
    { rows: "several", most_rows: 3 },
    { mechanism: { name: "OptimizedUnary", epsilon: new F64(1) } },
    { mechanism: { name: "DirectEncoding", epsilon: new F64(1) } },
    { mechanism: { name: "SubsetSelection", epsilon: new F64(1) } },
    { mechanism: { name: "LocalHashing", epsilon: new F64(1) }, size_class: 1 },
    { mechanism: { name: "HadamardResponse", epsilon: new F64(1) } },
    { mechanism: { name: "BasicRappor", f: new F64(0.5), p: new F64(0.25), q: new F64(0.75) }, ...memo },
    { ...memo, instantaneous: { p: new F64(0.25), q: new F64(0.75) } },
    { rows: "aggregate" },
    { ones: 2, rows: "all" },
  ];
  for (const shape of shapes) {
    const [first, ...others] = await Promise.all(DATA.map((distances) => observed(shape, distances)));
    for (const each of others) assert.deepEqual(each, first, JSON.stringify(shape));
  }
});

test("the comparison notices an app that refuses, stays silent or draws because of its data", async () => {
  const leaks = {
    refuses: (/** @type {number} */ value) => (value > 5 ? { refusal: new Refusal("columns") } : { rows: [[value]] }),
    "stays silent": (/** @type {number} */ value) => (value > 5 ? null : { rows: [[value]] }),
    draws: (/** @type {number} */ value, /** @type {import("../src/words.js").Words} */ words) => {
      if (value > 5) words.word();
      return { rows: [[value]] };
    },
  };
  for (const [name, leak] of Object.entries(leaks)) {
    const [small, large] = await Promise.all(
      [0.5, 7].map((value) => {
        const words = seededWords(7);
        return observed({ sampling: new F64(0.5) }, [value], { words, rows: () => leak(value, words) });
      }),
    );
    assert.notDeepEqual(large, small, name);
  }
});

test("no row, one row and many rows look alike from outside", async () => {
  /** @type {any[]} */
  const observed = [];
  for (const n of [0, 1, 40]) {
    const { me, transport, time } = await device([signedQuery({ rows: "several", most_rows: 3 })]);
    await me.record("trips", { distance: 1 });
    await me.change((state) => void (state.values.trips = Array.from({ length: n }, () => ({ time: time.now, row: { distance: 1 } }))));
    const receipts = await me.answerAll();
    time.now += EVERY;
    await me.upload();
    observed.push({ receipts, seen: transport.seen.map(({ body, ...each }) => ({ ...each, bytes: body?.length })) });
  }
  assert.deepEqual(observed[1], observed[0]);
  assert.deepEqual(observed[2], observed[0]);
});

test("a charge is given back if the answer never left, and stays if it was tried", async () => {
  for (const tried of [false, true]) {
    const { me, transport, time } = await device([signedQuery()]);
    await me.record("trips", { distance: 3 });
    await me.answerAll();
    transport.failure = new ProxyError("cannot be reached");
    time.now = Number(await me.nextDue());
    if (tried) await me.upload();
    time.now += 15 * 86_400;
    await me.upload();
    assert.equal(await me.change((state) => state.charges.length), Number(tried));
    assert.equal((await me.receipts()).some(({ outcome }) => outcome === "given back"), !tried);
  }
});

test("the off switch and Global Privacy Control stop everything; a person's own word counts more", async () => {
  const { me, transport } = await device([signedQuery()]);
  await me.setEnabled(false);
  await me.record("trips", { distance: 3 });
  assert.deepEqual(await me.answerAll(), []);
  assert.deepEqual(transport.seen, []);
  assert.deepEqual(await me.change((state) => state.values), {});
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { value: { globalPrivacyControl: true }, configurable: true });
  try {
    const other = await device([signedQuery()]);
    assert.equal(await other.me.enabled(), false);
    await other.me.setEnabled(true);
    assert.equal(await other.me.enabled(), true);
  } finally {
    if (before) Object.defineProperty(globalThis, "navigator", before);
    else delete (/** @type {any} */ (globalThis).navigator);
  }
});

test("keys that a proxy reports as revoked, and a wrong clock, stop an answer and decide nothing", async () => {
  const { me, transport } = await device([signedQuery()]);
  await me.record("trips", { distance: 3 });
  transport.revoked = [KEY];
  assert.deepEqual(outcomes(await me.answerAll()), ["revoked key"]);
  transport.revoked = [];
  transport.skew = 301;
  assert.deepEqual(outcomes(await me.answerAll()), ["clock"]);
  transport.skew = -300;
  assert.deepEqual(outcomes(await me.answerAll()), ["answered"]);
});

test("a new store does not answer the epoch that is under way", async () => {
  const { me, time } = await device([signedQuery()], { firstEpoch: "next", clock: undefined });
  const query = signedQuery({ schedule: { origin: ORIGIN, expires: 2 ** 31, every: 60, window: 60, slide: 60 } });
  await me.record("trips", { distance: 3 });
  assert.deepEqual(outcomes(await me.answerAll([query])), ["waiting"]);
  me.clock = () => Date.now() + 60_000;
  assert.deepEqual(outcomes(await me.answerAll([query])), ["answered"]);
  assert.ok(time);
});

test("a new store does not answer an epoch that began in the second in which it was made", async () => {
  // Seconds are whole here: a store that was lost in the epoch's first second may have answered in it.
  const schedule = { origin: ORIGIN, expires: 2 ** 31, every: 60, window: 60, slide: 60 };
  const query = signedQuery({ schedule });
  for (const [elapsed, outcome] of /** @type {[number, string][]} */ ([[0, "waiting"], [60, "answered"]])) {
    let now = ORIGIN + 6000;
    const { me } = await device([query], { firstEpoch: "next", clock: () => now * 1000 });
    await me.record("trips", { distance: 3 });
    now += elapsed;
    assert.deepEqual(outcomes(await me.answerAll([query])), [outcome]);
  }
});

test("a preview keeps, charges and sends nothing", async () => {
  const { me, transport } = await device([]);
  await me.record("trips", { distance: 3.2 });
  const before = JSON.stringify(await me.change((state) => state));
  const shown = await me.preview(signedQuery());
  assert.deepEqual(shown.answer, [["[2,5)"]]);
  assert.equal(shown.bytes, 160);
  assert.equal(JSON.stringify(await me.change((state) => state)), before);
  assert.deepEqual(transport.seen, []);
});

test("SQL that needs a database, and values that were never recorded, are refused before anything is drawn", async () => {
  const { me } = await device([signedQuery({ sql: "SELECT max(distance) FROM trips" })]);
  await me.record("trips", { distance: 3 });
  assert.deepEqual(outcomes(await me.answerAll()), ["forbidden SQL"]);
  assert.deepEqual(outcomes(await me.answerAll([signedQuery({ id: "b", sql: "SELECT x FROM nowhere" })])), ["not shared"]);
});

test("the query of a self-test is answered with its constant by a device that recorded nothing", async () => {
  const { me } = await device([]);
  const columns = [{ name: "constant", kind: "number", buckets: ["[4,5)", "[5,6)", "[6,7)"], other: false }];
  const query = signedQuery({ sql: "SELECT 5.5", columns });
  assert.deepEqual((await me.preview(query)).answer, [["[5,6)"]]);
  assert.deepEqual(outcomes(await me.answerAll([query])), ["answered"]);
  const two = signedQuery({ id: "two", sql: "SELECT 5.5", columns: [...columns, { ...columns[0], name: "more" }] });
  assert.deepEqual(outcomes(await me.answerAll([two])), ["forbidden SQL"]);
});

test("settings and keys that are not valid are named when the device opens", async () => {
  await assert.rejects(device([], { policy: { queue_age: 0.5 } }), /policy\.queue_age/);
  await assert.rejects(device([], { policy: { deadline: 61 } }), /policy\.deadline/);
  await assert.rejects(device([], { policy: { queue_messages: 0 } }), /policy\.queue_messages/);
  await assert.rejects(device([], { policy: { epsilon: 3 } }), /policy\.epsilon is not valid/);
  await assert.rejects(device([], { ring: [{ ...RING[0], public: "00" }] }), /ring\[0\]\.public/);
  await assert.rejects(device([], { ring: [{ ...RING[0], valid_until: "2030" }] }), /ring\[0\]\.valid_until/);
  assert.ok(await device([], { ring: { keys: [{ ...RING[0], note: "of the city" }] } }));
});

test("integers that no double holds keep their value", async () => {
  const buckets = ["[0,9007199254740992.0]", "(9007199254740992.0,inf)"];
  const { me } = await device([]);
  await me.record("trips", { distance: 2n ** 53n + 1n });
  const columns = [{ name: "distance", kind: "number", buckets, other: false }];
  assert.deepEqual((await me.preview(signedQuery({ columns }))).answer, [[buckets[1]]]);
});

test("a form waits for a person, is shown in their language, and its rows are deleted afterwards", async () => {
  const texts = { question: { en: "How?", de: "Wie?" }, labels: { en: ["On foot", "Else"], de: ["Zu Fuß", "Anders"] } };
  const columns = [{ name: "travel", kind: "text", buckets: ["foot"], other: true, ...texts }];
  const query = signedQuery({ ask: "form", sql: "", once: true, columns });
  const { me, time } = await device([query]);
  assert.deepEqual(outcomes(await me.answerAll()), ["waiting"]);
  const [asked] = await me.form(query, ["fr", "de-AT"]);
  assert.deepEqual([asked.question, asked.choices], ["Wie?", [{ label: "Zu Fuß", value: "foot" }, { label: "Anders", value: null }]]);
  await me.fill(query, [{ travel: "foot" }]);
  assert.deepEqual(outcomes(await me.answerAll()), ["answered"]);
  assert.deepEqual(await me.change((state) => state.forms), {});
  time.now += EVERY;
  assert.deepEqual(outcomes(await me.answerAll()), ["again"]);
});

test("a choice answers no version that asks something else", async () => {
  const form = (question, more = {}) => {
    const texts = { question: { en: question }, labels: { en: ["Yes", "No"] } };
    const columns = [{ name: "a", kind: "text", buckets: ["yes"], other: true, ...texts }];
    return signedQuery({ ask: "form", sql: "", columns, ...more });
  };
  const { me } = await device([]);
  await me.fill(form("Tea?"), [{ a: "yes" }]);
  assert.deepEqual(outcomes(await me.answerAll([form("Tea?", { question: "Theft?", serial: 2 })])), ["waiting"]);
  assert.deepEqual(await me.change((state) => state.forms), {});
  await me.fill(form("Tea?", { serial: 2 }), [{ a: "yes" }]);
  assert.deepEqual(outcomes(await me.answerAll([form("Theft?", { serial: 3 })])), ["waiting"]);
  await me.fill(form("Theft?", { serial: 3 }), [{ a: "yes" }]);
  assert.deepEqual(outcomes(await me.answerAll([form("Theft?", { sampling: 0.5, serial: 4 })])).includes("waiting"), false);
});

test("a store that fails keeps nothing and sends nothing", async () => {
  const kept = memoryStore();
  let full = false;
  const store = {
    ...kept,
    transaction: (/** @type {any} */ create, /** @type {any} */ work) =>
      kept.transaction(create, async (state) => {
        const result = await work(state);
        if (full) throw new StoreError("full", "no room");
        return result;
      }),
  };
  const { me, transport } = await device([signedQuery()], { store });
  await me.record("trips", { distance: 3 });
  full = true;
  await assert.rejects(me.answerAll(), { reason: "full" });
  full = false;
  assert.deepEqual(transport.seen.filter(({ kind }) => kind === "send"), []);
  assert.equal(await me.change((state) => state.queue.length), 0);
});

test("a file store is private, and several processes at once lose nothing", async () => {
  const path = join(await mkdtemp(join(tmpdir(), "deniable-store-")), "device.json");
  const code = `
    const { fileStore } = await import(${JSON.stringify(new URL("../src/stores/file.js", import.meta.url).href)});
    const { freshState } = await import(${JSON.stringify(new URL("../src/state.js", import.meta.url).href)});
    const store = fileStore(process.argv[1]);
    for (let i = 0; i < 20; i++) await store.transaction(() => freshState(null), (state) => void state.next++);`;
  const run = () =>
    new Promise((resolve) => spawn(process.execPath, ["--input-type=module", "-e", code, path]).on("close", resolve));
  assert.deepEqual(await Promise.all([run(), run(), run()]), [0, 0, 0]);
  const state = JSON.parse(await readFile(path, "utf8"));
  assert.equal(state.next, 61);
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  await fileStore(path).forget();
  await assert.rejects(stat(path));
});
