/** Where a query's answer comes from: SQL, a value that an app records, or a form that a person fills in. */

import { different, like, list, refuse, table, text } from "./checks.js";

/** @typedef {import("./buckets.js").Column} Column */
/** @typedef {{[language: string]: string}} Questions */
/** @typedef {{[language: string]: string[]}} Labels */

const language = like(/^(?=.{1,35}$)[a-z]{2,3}(-[A-Za-z0-9]{1,8})*$/);
const NAME = /^(?!(?:rowid|oid|_rowid_)$|sqlite_|pragma_|deniable_)[a-z_][a-z0-9_]{0,62}$/;
const MOST_LANGUAGES = 50;
const LONGEST_FORM = 100_000;

/** Whether an app may record rows under this name, or a column of them. @param {unknown} name */
export const isName = (name) => typeof name === "string" && NAME.test(name);

/**
 * What `check` makes of each language's part.
 * @template T
 * @param {import("./checks.js").Check<T>} check
 * @returns {import("./checks.js").Check<{[language: string]: T}>}
 */
const byLanguage = (check) => (value, name) => {
  const parts = Object.entries(table(value, name));
  if (!parts.length || parts.length > MOST_LANGUAGES) refuse(name);
  return Object.fromEntries(parts.map(([each, part]) => [language(each, name), check(part, `${name}.${each}`)]));
};

/** What a person reads of a column. */
export const TEXTS = { question: byLanguage(text(500, { lines: true })), labels: byLanguage(list(text(200))) };

/** @param {object} texts */
const languages = (texts) => Object.keys(texts).sort();

/** Refuse columns that cannot be a form. @param {Column[]} columns */
const checkForm = (columns) => {
  let length = 0;
  const known = languages(columns[0].question ?? {}).join();
  for (const { question, labels, overlapping, choices, size, name } of columns) {
    const same = question && labels && [question, labels].every((texts) => languages(texts).join() === known);
    if (!same || overlapping || choices.includes(null)) return refuse(name);
    for (const each of Object.values(labels)) {
      if (each.length !== size) refuse(name);
      different(name, each);
    }
    for (const each of [...Object.values(question), ...Object.values(labels).flat()]) length += Array.from(each).length;
  }
  if (length > LONGEST_FORM) refuse("columns");
};

/**
 * Refuse a query whose `ask`, SQL, value and columns do not go together.
 * @param {{ask?: "form" | "value", sql: string, value?: string, rows: string, once?: true, memoize: boolean}} query @param {Column[]} columns
 */
export const checkAsking = ({ ask, sql, value, rows, once, memoize }, columns) => {
  if ((sql === "") !== (ask !== undefined) || (value !== undefined) !== (ask === "value")) refuse("ask");
  if (ask === "form") checkForm(columns);
  else if (columns.some((column) => column.question || column.labels)) refuse("ask");
  if (ask === "value" && ![value, ...columns.map((column) => column.name)].every(isName)) refuse("value");
  if ((ask === "form" && rows === "several") || (once && memoize)) refuse("rows");
};

/**
 * The language in which a person is asked: the first of theirs that there is, or else the first there is.
 * @param {Questions} texts @param {readonly string[]} wanted
 */
export const languageOf = (texts, wanted) => {
  const known = languages(texts);
  const base = (/** @type {string} */ each) => each.split("-")[0];
  for (const each of wanted) {
    const found = known.includes(each) ? each : known.find((other) => base(other) === base(each));
    if (found) return found;
  }
  return known[0];
};
