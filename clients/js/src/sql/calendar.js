/** SQLite's date functions without the clock and the time zone of the device, as the Python client has them. */

import { fold } from "./rules.js";

export const CALENDAR = ["date", "time", "datetime", "julianday", "strftime", "unixepoch"];
const CLOCK = ["now", "localtime", "utc", "subsec", "subsecond"];
const SPACE = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const EDGES = new RegExp(`^${SPACE}+|${SPACE}+$`, "g");
// Written-out times, and the modifiers that only do arithmetic on them. Nothing else is passed on to SQLite.
const TIME_VALUE = /^[ \t\n\r\f\v\d:.+TZ-]*$/;
const MODIFIER =
  /^(?:[+-]?[\d.:-]+( [\d.:]+)?( *(second|minute|hour|day|month|year)s?)?|start of (month|year|day)|weekday \d|unixepoch|julianday|auto)$/i;

/**
 * Whether SQLite may be asked for a time: "forbidden" if the words name the clock, "null" if they are no time.
 * @param {string} name @param {unknown[]} given texts, numbers, nulls, and Uint8Arrays for blobs
 * @returns {"forbidden" | "null" | "ask"}
 */
export const readTime = (name, given) => {
  const times = name === "strftime" ? given.slice(1) : given;
  const texts = times.filter((each) => typeof each === "string").map((each) => each.replace(EDGES, ""));
  // A blob of those words would be read as text: no answer needs a time in a blob.
  if (!times.length || times.some((each) => each instanceof Uint8Array) || texts.some((each) => CLOCK.includes(fold(each)))) {
    return "forbidden";
  }
  const [first] = times;
  const modifiers = typeof first === "string" ? texts.slice(1) : texts;
  if (modifiers.length !== times.length - 1 || !modifiers.every((each) => MODIFIER.test(each))) return "null";
  return typeof first === "string" && !TIME_VALUE.test(first) ? "null" : "ask";
};
