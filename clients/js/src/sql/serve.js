/**
 * What runs in the worker. It loads SQLite, gives up everything else, and only then is sent names or rows. Out
 * of it come messages whose number and size follow from the query: one number for each draw, then the answer.
 */

import { keyedHash } from "../blake2b.js";
import { unhex } from "../bytes.js";
import { truth } from "../device.js";
import { Query } from "../query.js";
import { confine, removeStorage } from "./confinement.js";
import { GrantedCopy } from "./copy.js";
import { DisallowedSql } from "./rules.js";

/** @typedef {import("./copy.js").Shape} Shape */
/** @typedef {import("../buckets.js").Value} Value */

/**
 * @typedef {object} Task
 * @property {string} query its canonical text
 * @property {number[]} epoch its start and its end
 * @property {Shape} shape
 * @property {Value[][][]} rows of each table
 * @property {string} secret hexadecimal; of memoized queries
 * @property {{maxRows: number, maxMemory: number, deadline: number}} limits
 */

/** A draw that is not known yet. */
class Pending extends Error {
  /** @param {number} n */
  constructor(n) {
    super();
    this.n = n;
  }
}

/** Words that play back the places that were drawn so far. @param {number[][]} drawn @returns {import("../words.js").Words} */
const replayed = (drawn) => {
  let next = 0;
  const some = (/** @type {number} */ n) => {
    if (next === drawn.length) throw new Pending(n);
    return drawn[next++];
  };
  return /** @type {any} */ ({ some, below: (/** @type {number} */ n) => some(n)[0] });
};

/** How many draws an answer takes. @param {Query} query */
const drawsOf = (query) => {
  if (query.memoize) return 0;
  return query.ones > 1 && query.given.rows !== "all" ? 2 : 1;
};

/** @param {(message: any) => void} post @param {(listener: (message: any) => void) => void} listen */
export const serve = (post, listen) => {
  /** @type {any} */
  let sqlite;
  /** @type {((places: number[]) => void) | undefined} */
  let given;

  /** @param {number} n @returns {Promise<number[]>} */
  const ask = (n) =>
    new Promise((resolve) => {
      given = resolve;
      post(Int32Array.of(n));
    });

  /** @param {string | null} address */
  const load = async (address) => {
    removeStorage();
    // @ts-ignore an optional peer: it need not be installed where types are checked
    const { default: start } = await (address ? import(/* @vite-ignore */ /* webpackIgnore: true */ address) : import("@sqlite.org/sqlite-wasm"));
    sqlite = await start({ print: () => undefined, printErr: () => undefined });
    confine();
    post({ ready: true });
  };

  /** @param {Shape} shape @param {string} sql @param {number} maxMemory */
  const compile = (shape, sql, maxMemory) => {
    const copy = new GrantedCopy(sqlite, shape);
    copy.seal(maxMemory);
    try {
      post({ columns: copy.compile(sql) });
    } catch (error) {
      if (!(error instanceof DisallowedSql)) throw error;
      post({ reason: error.reason, detail: error.message });
    } finally {
      copy.close();
    }
  };

  /** @param {Task} task */
  const answer = async ({ query: text, epoch, shape, rows, secret, limits }) => {
    const query = new Query(text);
    const { mostRows, ones, buckets } = query;
    const hash = query.memoize ? keyedHash(/** @type {Uint8Array} */ (unhex(secret)), query.scope) : null;
    /** @type {number[][]} */
    const drawn = [];
    /** @type {number[][] | undefined} */
    let sets;
    try {
      const copy = new GrantedCopy(sqlite, shape);
      rows.forEach((each, table) => copy.add(table, each));
      copy.seal(limits.maxMemory);
      const found = copy.query(query.given.sql, epoch, limits);
      if (found.some((row) => row.length !== buckets.columns.length)) throw new DisallowedSql("columns", "");
      // Coins are drawn outside. The choice begins anew with each draw that has come in.
      while (!sets) {
        try {
          sets = truth(query, found, hash, replayed(drawn));
        } catch (error) {
          if (!(error instanceof Pending)) throw error;
          drawn.push(await ask(error.n));
        }
        if (copy.late()) throw new DisallowedSql("deadline", "");
      }
    } catch {
      sets = truth(query, [], hash, replayed([[], []])); // whatever it was, it may be due to the data
    }
    while (drawn.length < drawsOf(query)) drawn.push(await ask(0));
    const answers = sets;
    post(Int32Array.from({ length: mostRows * ones }, (_, i) => answers[Math.floor(i / ones)][i % ones]));
  };

  const failed = () => post({ failed: true });
  listen((message) => {
    if (Array.isArray(message)) given?.(message);
    else if ("load" in message) load(message.load).catch((error) => post({ failed: true, why: String(error) }));
    else if ("compile" in message) {
      try {
        compile(message.shape, message.compile, message.maxMemory);
      } catch {
        failed();
      }
    } else answer(message).catch(failed);
  });
};
