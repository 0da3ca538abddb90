/** What an app recorded, and the rows that it gives a query: by name, or by SQL that selects columns of one table. */

import { isName } from "./asking.js";
import { Refusal } from "./signing.js";

/** @typedef {import("./buckets.js").Value} Value */
/** @typedef {import("./device.js").Source} Source */
/** @typedef {import("./query.js").Query} Query */
/** @typedef {import("./state.js").State} State */

const DAY = 86_400;
const KEPT = 30 * DAY;
const MOST_ROWS = 10_000;
const CONSTANT = /^\s*SELECT\s+(-?\d{1,15}(?:\.\d{1,15})?)\s*;?\s*$/i; // of a self-test: every device has this answer
const SELECT = /^\s*SELECT\s+(\w+(?:\s*,\s*\w+)*)\s+FROM\s+(\w+)\s*;?\s*$/i;

/** @param {string} name */
const checkName = (name) => {
  if (!isName(name)) throw new TypeError(`${name} is not a name of a-z, 0-9 and _`);
};

/** A row as it is stored: integers that no double holds as texts in a list. @param {{[column: string]: Value}} row */
export const stored = (row) =>
  Object.fromEntries(
    Object.entries(row).map(([column, value]) => {
      checkName(column);
      const found = typeof value === "boolean" ? Number(value) : value ?? null;
      if (typeof found === "bigint") return [column, [String(found)]];
      if (found !== null && typeof found !== "string" && typeof found !== "number") throw new TypeError(`${column} is not a text, a number or null`);
      return [column, found];
    }),
  );

/** @param {any} value @returns {Value} */
const restored = (value) => (Array.isArray(value) ? BigInt(value[0]) : value ?? null);

/** Keep rows, and forget those that are too old or too many. @param {State} state @param {string} name @param {object[]} rows @param {number} now @param {number} [keep] seconds */
export const record = (state, name, rows, now, keep = KEPT) => {
  checkName(name);
  const known = (state.values[name] ?? []).concat(rows.map((row) => ({ time: now, row })));
  state.values[name] = known.filter((each) => each.time > now - keep).slice(-MOST_ROWS);
};

/** The table and columns that a query reads, or null if only a database can say. @param {Query} query */
const reads = (query) => {
  const { ask, value, sql } = query.given;
  if (ask === "value") return { name: value ?? "", columns: query.buckets.columns.map((column) => column.name) };
  const found = SELECT.exec(sql);
  return found && { name: found[2], columns: found[1].split(",").map((column) => column.trim()) };
};

/** What a person reads in a form. @param {Query} query */
export const askedBy = ({ tree }) => JSON.stringify([tree.question, tree.columns]);

/** The rows of a query from what was recorded, or why there are none. @param {Query} query @param {State} state @returns {Source} */
export const recordedRows = (query, state) => {
  if (query.given.ask === "form") {
    const chosen = state.forms[query.name];
    if (chosen?.asked !== askedBy(query)) {
      delete state.forms[query.name]; // nobody's choice answers a question that they did not see
      return null;
    }
    return { rows: chosen.rows.map((row) => query.buckets.columns.map((column) => restored(row[column.name]))) };
  }
  const constant = CONSTANT.exec(query.given.sql);
  if (constant && query.buckets.columns.length === 1) return { rows: [[Number(constant[1])]] };
  const wanted = reads(query);
  if (!wanted) return { refusal: new Refusal("forbidden SQL") };
  const known = state.values[wanted.name];
  if (!known) return { refusal: new Refusal("not shared", wanted.name) };
  if (wanted.columns.length !== query.buckets.columns.length) return { refusal: new Refusal("columns") };
  return { rows: known.map(({ row }) => wanted.columns.map((column) => restored(row[column]))) };
};
