// The person tosses: what they tap is what the coins let them say, so the true answer is never entered.

import { h, put } from "./dom.js";
import { button, choices } from "./parts.js";
import { inLanguage, t } from "./words.js";

/** How many last digits of a number, and below which value they lie with probability 1 / (factor + 1); null if no such value is whole. */
const digits = (factor) => {
  const parts = Math.round(factor) + 1;
  const n = [2, 3].find((each) => 10 ** each % parts === 0);
  return n ? { n, below: 10 ** n / parts, all: 10 ** n } : null;
};

const coins = (app, question, [first, second], all) => {
  const change = (i) => (app.answers[app.index] = [i]);
  const numbered = all.length > 2 ? all.map((text, i) => `${i + 1}. ${text}`) : all;
  return [
    h("ol", { class: "hand" }, t.handRules(question.hand, `“${first}”`, `“${second}”`, all.length).map((line) => h("li", null, line))),
    h("h2", null, t.handSay),
    h("div", { class: `choices ${all.length === 2 ? "pair" : ""}`, role: "radiogroup", "aria-label": t.handSay }, choices("said", numbered, (i) => app.answers[app.index]?.[0] === i, change)),
  ];
};

/**
 * The crosswise model: a report says whether exactly one of two statements is true. Statement B is true with probability
 * 1 / (factor + 1) for one half of the people and with factor / (factor + 1) for the other, so that the reply, turned
 * round for the second half, is drawn from the channel of the coins.
 */
const statements = (app, question, statement, language) => {
  const { n, below, all } = digits(question.factor);
  app.pair.high ??= crypto.getRandomValues(new Uint8Array(1))[0] & 1;
  const { high } = app.pair;
  const padded = (value) => String(value).padStart(n, "0");
  const range = high ? [below, all - 1] : [0, below - 1];
  const change = (i) => (app.answers[app.index] = [i ^ high]);
  return [
    h("p", null, t.pair1),
    h("dl", { class: "statements panel" }, h("dt", null, "A"), h("dd", inLanguage(language), statement), h("dt", null, "B"), h("dd", null, t.pair2(n, ...range.map(padded)))),
    h("h2", null, t.pairSay),
    h("div", { class: "choices", role: "radiogroup", "aria-label": t.pairSay }, choices("said", [t.differ, t.same2], (i) => app.answers[app.index]?.[0] === (i ^ high), change)),
  ];
};

export const byHand = (app, question, language, options) => {
  const statement = question.statement?.[language];
  const canCompare = statement && digits(question.factor);
  const box = h("div", { class: "stack" });
  app.pair ??= { on: false };
  const show = () => {
    const pair = canCompare && app.pair.on;
    const other = canCompare && button(pair ? t.handCoins : t.handPair, () => {
      app.pair.on = !app.pair.on;
      app.answers[app.index] = undefined;
      show();
    }, "plain small", "pair");
    put(box, pair ? statements(app, question, statement, language) : coins(app, question, options, options), h("p", { class: "small muted" }, t.handWhy), other);
  };
  show();
  return box;
};
