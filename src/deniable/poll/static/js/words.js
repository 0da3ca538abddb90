// Words and numbers as the page shows them.

import en from "./en.js";

export const t = en;
const LOCALE = "en-GB";

export const num = (x, digits = 0) => x.toLocaleString(LOCALE, { minimumFractionDigits: digits, maximumFractionDigits: digits });
export const times = (x) => num(x, x < 10 && Math.abs(x - Math.round(x)) > 0.04 ? 1 : 0);
export const pct = (x, digits = 0) => `${num(100 * x, digits)}\u202f%`;
/** A day, from seconds since 1970. */
export const day = (seconds) => new Date(seconds * 1000).toLocaleDateString(LOCALE, { day: "numeric", month: "long", timeZone: "UTC" });
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString(LOCALE, { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
export const spaced = (digits) => (digits || "–").replace(/(.{4})/g, "$1 ").trim();
