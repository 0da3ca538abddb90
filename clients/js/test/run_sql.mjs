/** Answers SQL as lines of JSON ask for it: first what is granted and the rows, then one query per line. */

import { createInterface } from "node:readline";
import { Policy } from "../src/policy.js";
import { Query } from "../src/query.js";
import { sqlRows } from "../src/sql/index.js";
import { freshState } from "../src/state.js";
import { sqlite } from "./sqlite.js";

const policy = new Policy({ upload_within: 0, deadline: 30 }, []);
const state = { ...freshState(null), secret: "00".repeat(32) };
/** Places that both clients draw in the same way. @param {number} n @param {number} most */
const draw = (n, most) => Array.from({ length: Math.min(n, most) }, (_, i) => (7 * n + 3 + i) % n);

const words = /** @type {import("../src/words.js").Words} */ (/** @type {unknown} */ ({ some: draw }));

/** @type {Awaited<ReturnType<typeof sqlRows>> | undefined} */
let rows;
for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  if (!rows) {
    rows = await sqlRows({ grant: given.grant, sqlite, tables: (table) => given.tables[table] });
    continue;
  }
  const source = await rows(new Query(given.query), state, policy);
  if (!source) throw new TypeError("SQL does not wait for anybody");
  if ("refusal" in source) console.log(JSON.stringify({ refused: source.refusal.reason }));
  else if ("find" in source) console.log(JSON.stringify({ found: await source.find(words, given.epoch ?? 0) }));
}
process.exit(0);
