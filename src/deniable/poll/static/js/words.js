// Words and numbers as the page shows them: English comes with the page, another language is fetched from the same place when it is chosen.

import en from "./en.js";

export const LANGUAGES = { en: "English", de: "Deutsch", ar: "العربية" };
/** The words of the chosen language. */
export const t = { ...en };
let locale = "en-GB";

const memory = (use) => {
  try {
    return use(localStorage);
  } catch {
    return null; // blocked
  }
};

/** The language a person chose here, or else the first of the browser's that there is. */
export const preferred = () => {
  const wanted = [memory((kept) => kept.getItem("language")), ...(navigator.languages ?? [])].map((each) => String(each).split("-")[0]);
  return wanted.find((each) => each in LANGUAGES) ?? "en";
};

/** Speak a language. If its words cannot be had, the page stays with what it speaks. */
export const speak = async (code, chosen) => {
  try {
    Object.assign(t, en, code === "en" ? {} : (await import(`./${code}.js`)).default);
  } catch {
    return;
  }
  locale = { en: "en-GB", ar: "ar-u-nu-latn" }[code] ?? code;
  Object.assign(document.documentElement, { lang: t.lang, dir: t.dir });
  if (chosen) memory((kept) => kept.setItem("language", code));
};

const RIGHT_TO_LEFT = ["ar", "fa", "he", "ur"];
/** What an element with a text of the poll's own says of its language. */
export const inLanguage = (lang) => ({ lang, dir: RIGHT_TO_LEFT.includes(lang.split("-")[0]) ? "rtl" : "ltr" });
export const languageName = (code) => new Intl.DisplayNames([t.lang], { type: "language" }).of(code) ?? code;

export const num = (x, digits = 0) => x.toLocaleString(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits });
/** A factor, rounded up: it is a bound. */
export const times = (x) => {
  const up = Math.ceil(10 * x - 1e-6) / 10;
  return x < 10 ? num(up, Number.isInteger(up) ? 0 : 1) : num(Math.ceil(x - 1e-6));
};
export const pct = (x, digits = 0) => `${num(100 * x, digits)}\u202f%`;
/** A day, from seconds since 1970. */
export const day = (seconds) => new Date(seconds * 1000).toLocaleDateString(locale, { day: "numeric", month: "long", timeZone: "UTC" });
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString(locale, { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
export const spaced = (digits) => (digits || "–").replace(/(.{4})/g, "$1 ").trim();
