/**
 * deniable-client/sql: answers queries whose answer comes from SQL, on a copy of what was granted, in a worker
 * that has nothing else. Needs the package @sqlite.org/sqlite-wasm.
 */

import { isName } from "../asking.js";
import { write } from "../canonical.js";
import { Refusal } from "../signing.js";
import { recordedRows } from "../values.js";
import { confined, exchange } from "./host.js";

/** @typedef {import("../buckets.js").Value} Value */
/** Draws up to `most` of n places. @typedef {(n: number, most: number) => number[]} Draw */
/** @typedef {import("../device.js").Source} Source */
/** @typedef {import("../policy.js").Policy} Policy */
/** @typedef {import("../query.js").Query} Query */
/** @typedef {import("../state.js").State} State */
/** @typedef {import("./copy.js").Kind} Kind */
/** @typedef {import("./copy.js").Shape} Shape */

/**
 * @typedef {object} SqlOptions
 * @property {{[table: string]: {[column: string]: Kind}}} grant what may be asked about: tables, their columns and kinds
 * @property {string | URL} [sqlite] the address of SQLite's module; by default the package is imported by its name
 * @property {(table: string) => {[column: string]: Value}[] | Promise<{[column: string]: Value}[]>} [tables] the rows of a
 *   granted table; by default those that were recorded under its name, with their time as `recorded_at`
 * @property {number} [maxRows] more rows are no answer
 * @property {number} [maxMemory] bytes that a query may take beside the copy
 */

const KINDS = ["INTEGER", "REAL", "TEXT"];
const MOST_VERDICTS = 256;
const START_UP = 2; // seconds that a busy machine may take to start a worker and copy rows, besides the deadline
const UNHURRIED = 60; // the same where answers have no slot
const SMALLEST_MEMORY = 4 << 20;
const second = 1000;

/** @param {string} a @param {string} b */
const byName = (a, b) => (a < b ? -1 : 1);

/** @param {SqlOptions["grant"]} grant @returns {Shape} */
const shapeOf = (grant) =>
  Object.entries(grant)
    .map(([table, columns]) => {
      if (!isName(table)) throw new TypeError(`${table} cannot be the name of a table`);
      const named = Object.entries(columns).sort(([a], [b]) => byName(a, b));
      if (!named.length) throw new TypeError(`no column of ${table} is granted`);
      for (const [column, kind] of named) {
        if (!isName(column)) throw new TypeError(`${column} cannot be the name of a column`);
        if (!KINDS.includes(kind)) throw new TypeError(`the kind of ${table}.${column} must be one of ${KINDS.join(", ")}`);
      }
      return /** @type {Shape[number]} */ ([table, named]);
    })
    .sort(([a], [b]) => byName(a, b));

/** What is granted of a table's rows, and nothing else. @param {Shape[number][1]} columns @param {{[column: string]: any}[]} rows @returns {Value[][]} */
const cells = (columns, rows) => rows.map((row) => columns.map(([name]) => (Object.hasOwn(row, name) ? row[name] ?? null : null)));

/** @param {State} state @param {string} table */
const recorded = (state, table) =>
  (state.values[table] ?? []).map(({ time, row }) => ({
    ...Object.fromEntries(Object.entries(row).map(([name, value]) => [name, Array.isArray(value) ? BigInt(value[0]) : value])),
    recorded_at: time,
  }));

/**
 * What `open` takes as `rows`: it answers SQL from what is granted, and everything else as the client does without it.
 * Rejects if SQLite cannot be started.
 * @param {SqlOptions} options
 * @returns {Promise<(query: Query, state: State, policy: Policy) => Promise<Source>>}
 */
export const sqlRows = async ({ grant, sqlite, tables, maxRows = 10_000, maxMemory = 32 << 20 }) => {
  const shape = shapeOf(grant);
  if (!Number.isInteger(maxRows) || maxRows < 1) throw new RangeError(`maxRows = ${maxRows} must be a whole number of at least 1`);
  if (!Number.isInteger(maxMemory) || maxMemory < SMALLEST_MEMORY) throw new RangeError(`maxMemory = ${maxMemory} must be at least ${SMALLEST_MEMORY} bytes`);
  const address = sqlite === undefined ? null : String(sqlite);
  const start = (/** @type {number} */ milliseconds) => confined(address, maxMemory, milliseconds);
  /** @type {import("./host.js").SqlWorker | null} it is never sent a row. A package that is missing says so now */
  let compiler = await start(UNHURRIED * second);
  /** @type {Map<string, Refusal | null>} what came of each text */
  const verdicts = new Map();

  /** Why SQL is refused by a worker that has names and no row. @param {Query} query @param {number} deadline seconds */
  const compiled = async (query, deadline) => {
    const { sql } = query.given;
    const n = query.buckets.columns.length;
    const key = `${n} ${sql}`;
    const known = verdicts.get(key);
    if (known !== undefined) return known;
    try {
      compiler ??= await start((deadline + UNHURRIED) * second);
    } catch {
      return null; // the machine is busy: refusing would tell that
    }
    const said = await exchange(compiler, { compile: sql, shape, maxMemory }, (deadline + START_UP) * second);
    if (!said || said.failed) {
      compiler.end();
      compiler = null;
    }
    if (!said) return new Refusal("forbidden SQL", "it takes too long to compile");
    let verdict = null;
    if (said.reason === "not shared") verdict = new Refusal("not shared", said.detail);
    else if (said.reason) verdict = new Refusal("forbidden SQL", said.detail);
    else if (said.failed) verdict = new Refusal("forbidden SQL", "it cannot be compiled");
    else if (said.columns !== null && said.columns !== n) verdict = new Refusal("columns", said.columns);
    if (verdicts.size >= MOST_VERDICTS) verdicts.delete(/** @type {string} */ (verdicts.keys().next().value));
    verdicts.set(key, verdict);
    return verdict;
  };

  /** The buckets of the answer, of the worker that has the rows. @param {Query} query @param {State} state @param {number} epoch @param {number} deadline @param {number} ends @param {Draw} draw */
  const read = async (query, state, epoch, deadline, ends, draw) => {
    const left = () => Math.max(0, ends - performance.now());
    const rows = await Promise.all(shape.map(async ([table, columns]) => cells(columns, tables ? await tables(table) : recorded(state, table))));
    const worker = await start(left());
    try {
      const limits = { maxRows, maxMemory, deadline: deadline * second };
      const task = { query: write(query.tree), epoch: [query.endOf(epoch - 1), query.endOf(epoch)], shape, rows, secret: query.memoize ? state.secret : "", limits };
      const most = query.ones > 1 && query.given.rows !== "all" ? [1, query.ones] : [Math.max(query.mostRows, query.ones)];
      let draws = 0;
      const said = await exchange(worker, task, left(), (each) =>
        each instanceof Int32Array && each.length === 1 && !query.memoize && draws < most.length ? draw(each[0], most[draws++]) : undefined,
      );
      return said instanceof Int32Array && said.length === query.mostRows * query.ones ? said : null;
    } finally {
      worker.end();
    }
  };

  return async (query, state, policy) => {
    if (query.given.ask) return recordedRows(query, state);
    const { deadline } = policy.settings;
    const refusal = await compiled(query, deadline);
    if (refusal) return { refusal };
    return {
      async find(words, epoch) {
        const { mostRows, ones, buckets } = query;
        const within = (deadline + (policy.slot ? START_UP : UNHURRIED)) * second;
        const ends = performance.now() + within;
        // Where answers have a slot, all take as long, whatever the data are.
        const over = policy.slot ? new Promise((resolve) => setTimeout(resolve, within)) : null;
        let late = false;
        const nothing = buckets.complete ? buckets.size - 1 : -1;
        const none = Array.from({ length: mostRows * ones }, (_, i) => (i % ones ? -1 : nothing));
        const guarded = (/** @type {number} */ n, /** @type {number} */ most) => {
          if (late) throw new Error("the coins are for others now");
          return words.some(n, most);
        };
        const attempt = read(query, state, epoch, deadline, ends, guarded).catch(() => null);
        const found = (await (over ? Promise.all([Promise.race([attempt, over]), over]).then(([first]) => first) : attempt)) ?? none;
        late = true;
        return Array.from({ length: mostRows }, (_, i) => Array.from(/** @type {ArrayLike<number>} */ (found)).slice(i * ones, (i + 1) * ones));
      },
    };
  };
};
