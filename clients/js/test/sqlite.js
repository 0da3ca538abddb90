/** Where the tests' SQLite is, and devices that answer SQL with it. */

import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { memoryStore, open } from "../src/index.js";
import { sqlRows } from "../src/sql/index.js";
import { EVERY, ORIGIN, PROXIES, RING, fakeTransport } from "./helpers.js";

const file = `${process.env.DENIABLE_NODE ?? ""}/node_modules/@sqlite.org/sqlite-wasm/node.mjs`;
/** Why SQL is not tried here; CI installs what is needed, and skips nothing. */
export const skip = existsSync(file) || process.env.DENIABLE_REQUIRE_BROWSER === "1" ? false : "sqlite-wasm is not installed in DENIABLE_NODE";
export const sqlite = pathToFileURL(file);
export const GRANT = /** @type {const} */ ({ trips: { distance: "REAL", city: "TEXT", recorded_at: "INTEGER" } });

/** A device at the beginning of epoch 10 that answers at once. @param {object} [sql] @param {object} [options] */
export const sqlDevice = async (sql = {}, options = {}) => {
  const transport = fakeTransport([]);
  const time = { now: ORIGIN + 10 * EVERY };
  const rows = await sqlRows({ grant: GRANT, sqlite, ...sql });
  const me = await open({
    proxies: PROXIES, ring: RING, transport, store: memoryStore(), clock: () => time.now * 1000, firstEpoch: "now", rows,
    policy: { epsilon_per_answer: 100, limits: [], upload_within: 0, deadline: 20 }, ...options,
  });
  return { me, transport, time, rows };
};
