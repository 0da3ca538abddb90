// The respondent's page: one step after another, one thing to decide on each.

import { languageOf } from "../client/asking.js";
import { StoreError } from "../client/stores/memory.js";
import { h, icons, logo, put, say } from "./dom.js";
import { Kept, keepPage } from "./kept.js";
import { fetchDocument, readLink } from "./link.js";
import { openQuestions, readCopies } from "./poll.js";
import { asking } from "./question.js";
import { results } from "./results.js";
import { consent, how, leaves, loading, sending, sent } from "./screens.js";
import { stop } from "./stops.js";
import { tossing } from "./toss.js";
import { LANGUAGES, preferred, speak, t } from "./words.js";

const [bar, main, skip] = ["bar", "main", "skip"].map((id) => document.getElementById(id));
const steps = h("div", { class: "steps" });
const SCREENS = { loading, consent, question: asking, toss: tossing, leaves, sending, sent, results, how, stop };
const ORDER = { consent: 1, question: 2, toss: 3, leaves: 4, sending: 4, sent: 5 };
const FINAL = ["leaves", "sending", "sent"]; // the coins have fallen: there is no way back to them

const app = {
  link: null, kept: null, document: null, step: "loading", index: 0, stop: null, fault: "", print: "", before: null,
  copies: [null, null], questions: [], mode: "phone", pair: null, cover: false, answers: [], said: null, answeredOn: null,
  /** The language of texts in which this person is asked. */
  language: (texts) => languageOf(texts, [t.lang, ...(navigator.languages ?? [])]),
  get tongue() {
    return this.language(this.document.texts);
  },
  get texts() {
    return this.document.texts[this.tongue];
  },
  get epsilon() {
    return this.questions.reduce((sum, { epsilon }) => sum + epsilon, 0);
  },
  go(step, more = {}) {
    Object.assign(this, more);
    const replaced = this.step === "loading" || FINAL.includes(step);
    this.step = step;
    history[replaced ? "replaceState" : "pushState"]({ step, index: this.index }, "");
    show();
  },
  halt(kind) {
    this.answers.length = 0;
    this.go("stop", { stop: kind });
  },
  tamper(fault, print = "") {
    Object.assign(this, { fault, print });
    this.halt("tampered");
  },
  /** A device did not answer. */
  refuse(receipt) {
    if (receipt?.outcome === "again" || receipt?.outcome === "waiting") this.halt("already");
    else this.halt(receipt?.reason === "clock" ? "clock" : receipt?.reason === "expired query" ? "closed" : "store");
  },
  async useCode(code) {
    this.link.code = code;
    await this.kept.change((kept) => void (kept.code = code));
    this.questions = await openQuestions(this.document, this.link, this.copies);
  },
};

const frame = () => {
  say(skip, t.skip);
  const help = () => app.step !== "how" && app.go("how", { before: app.step });
  const select = h("select", { class: "tool", "aria-label": t.language, "data-testid": "language", on: { change: async () => { await speak(select.value, true); show(); bar.querySelector("select").focus(); } } }, Object.entries(LANGUAGES).map(([code, name]) => h("option", { value: code, lang: code, selected: code === t.lang }, name)));
  const settled = !["loading", "toss", "sending"].includes(app.step); // what moves there is not drawn anew
  put(bar, h("span", { class: "brand" }, logo(), h("span", null, "deniable")), h("span", { class: "push" }, settled && select, app.document && h("button", { class: "tool", type: "button", "aria-label": t.help, title: t.help, "data-testid": "help", on: { click: help } }, icons.help())));
  const at = ORDER[app.step];
  steps.hidden = !at || (app.step === "question" && app.questions.length > 1); // there the budget shows how far one is
  put(steps, at && [h("span", { class: "visually-hidden" }, t.step(at, 5)), Array.from({ length: 5 }, (_, i) => h("i", { class: i < at ? "on" : null, "aria-hidden": "true" }))]);
};

const show = () => {
  frame();
  const made = SCREENS[app.step](app);
  document.body.className = made.loud ? "loud" : "";
  put(main, steps, h("div", { class: "screen", "data-screen": app.step }, h("div", { class: "body" }, made.body), made.actions && h("div", { class: "actions" }, made.actions)));
  const title = main.querySelector("h1");
  title.tabIndex = -1;
  document.title = `${title.textContent} – deniable`;
  scrollTo(0, 0);
  title.focus({ preventScroll: true });
  document.documentElement.dataset.ready = app.step === "stop" ? app.stop : app.step;
};

addEventListener("popstate", (event) => {
  const wanted = event.state?.step ?? "consent";
  const gone = FINAL.includes(app.step) || app.step === "stop" || app.step === "loading" || app.said;
  if (gone) return;
  app.step = wanted;
  app.index = event.state?.index ?? 0;
  show();
});
// Nothing that was typed outlives the page, not even in the browser's back-forward cache.
addEventListener("pagehide", () => (app.answers.length = 0));
addEventListener("hashchange", () => location.reload());

/** Where a person who has been here before goes on. */
const resume = async () => {
  const found = await Promise.all(app.questions.map((question) => question.look()));
  app.answeredOn = found.map(({ time }) => time).find((time) => time !== null) ?? null;
  if (!found.some(({ decided }) => decided)) return app.go("consent");
  if (found.every(({ waiting }) => !waiting.length)) return app.halt("already");
  if (found.some(({ waiting }) => waiting.length < app.document.proxies.length)) return app.go("sending");
  return app.go("leaves", { said: await Promise.all(app.questions.map((question) => question.said())) });
};

const start = async () => {
  await speak(preferred());
  show();
  if (!globalThis.crypto?.subtle) return app.halt("http");
  app.link = readLink();
  if (!app.link) return app.tamper("badLink");
  app.kept = new Kept(app.link.poll);
  const kept = await app.kept.look().catch(() => ({ document: "", copies: {}, code: "" })); // the devices say so, if nothing can be kept
  const found = await fetchDocument(app.link, kept.document);
  if (!found) return app.halt("off");
  if (found.fault) return app.tamper(found.fault, found.print);
  app.document = found.document;
  show();
  const copies = await readCopies(app.document, kept.copies, (i, copy) => {
    app.copies[i] = copy;
    show();
  });
  const states = copies.map(({ state }) => state);
  const bad = states.find((state) => state.startsWith("bad"));
  if (bad) return app.tamper(bad);
  if (Date.now() / 1000 >= app.document.end || states.every((state) => state === "gone")) return app.halt("closed");
  if (states.every((state) => state !== "same")) return app.halt("off");
  if (states.some((state) => state !== "same")) return app.halt("half");
  try {
    app.link.code ||= kept.code;
    await app.kept.change((state) => {
      state.code = app.link.code;
      state.document = new TextDecoder().decode(found.content);
      copies.forEach(({ copies: shown }, i) => {
        state.copies[app.document.proxies[i].url] = Object.fromEntries(shown.map(({ text }, j) => [app.document.questions[j].query, text]));
      });
    });
    keepPage();
    app.questions = await openQuestions(app.document, app.link, copies);
    return await resume();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return app.halt("store");
  }
};
void start();
