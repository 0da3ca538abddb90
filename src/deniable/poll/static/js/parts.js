// Pieces that several screens share.

import { h, s } from "./dom.js";
import { num, pct, t } from "./words.js";

/** What a belief of `prior` can become at most. */
const most = (prior, epsilon) => {
  const odds = (prior / (1 - prior)) * Math.exp(epsilon);
  return odds / (1 + odds);
};

export const button = (text, act, kind = "", id = null) => h("button", { type: "button", class: `btn ${kind}`, "data-testid": id, on: { click: act } }, text);

/** A radio group of two or three, as in the console. */
export const segmented = (name, title, options, value, change) => h("div", { class: "seg", role: "radiogroup", "aria-label": title },
  options.map(([v, text]) => h("label", null, h("input", { type: "radio", name, value: v, checked: v === value, on: { change: () => change(v) } }), h("span", null, text))));

export const choices = (name, options, isChosen, change, kind = "radio") =>
  options.map((text, i) => h("label", { class: "choice" }, h("input", { type: kind, name, value: String(i), checked: isChosen(i), "data-testid": `${name === "answer" ? "option" : name}-${i}`, on: { change: (event) => change(i, event.target) } }), h("span", null, text)));

/** 100 squares: a belief of 10 in 100, and what it can become at most, rounded up. */
export function odds(epsilon, prior = 0.1) {
  const before = Math.round(100 * prior), after = Math.ceil(100 * most(prior, epsilon) - 1e-6), at = (i) => (i < before ? "before" : i < after ? "after" : "rest");
  return h("figure", { class: "odds" },
    s("svg", { viewBox: "0 0 249 39", "aria-hidden": "true" }, Array.from({ length: 100 }, (_, i) => s("rect", { class: at(i), x: Math.floor(i / 4) * 10, y: (i % 4) * 10, width: 8.6, height: 8.6, rx: 1.6 }))),
    h("figcaption", null, h("p", null, t.likely), h("p", null, h("span", null, h("i", { class: "key before" }), t.before(num(before))), h("span", null, h("i", { class: "key after" }), t.after(num(after))))));
}

/** Bytes as they are: one dot for every bit that is set, on a torn piece of paper. */
export function noise(share, right) {
  const columns = 24;
  let dots = "", edge = right ? "M149 1H10" : "M1 1H140";
  share.forEach((byte, i) => { for (let b = 0; b < 8; b++) if ((byte >> b) & 1) { const at = i * 8 + b; dots += `M${(right ? 17 : 11) + (at % columns) * 5.3} ${13 + Math.floor(at / columns) * 5.3}h.01`; } });
  for (let i = 1; i <= 12; i++) edge += `L${(right ? 5 : 145) + (i % 2 ? 4 : -3) - ((i * 5) % 3)} ${(i * 103) / 12 + 1}`;
  return s("svg", { class: "noise", viewBox: "0 0 150 105", "aria-hidden": "true" }, s("path", { class: "paper", d: `${edge}${right ? "H149Z" : "H1Z"}` }), s("path", { class: "bits", d: dots }));
}

/** Bars with whiskers: a table, whose chart is hidden from screen readers because the figures stand beside it. */
export function bars(labels, parts) {
  const top = Math.min(1, Math.ceil(Math.max(...parts.map((part) => part[2] || 1)) * 5 + 0.25) / 5), rtl = t.dir === "rtl";
  const x = (v) => { const f = Math.max(0, Math.min(1, v / top)); return `${100 * (rtl ? 1 - f : f)}%`; };
  const steps = Array.from({ length: Math.round(top / 0.2) + 1 }, (_, i) => i * 0.2);
  const chart = ([value, low, high]) => s("svg", { "aria-hidden": "true" },
    steps.map((v) => s("line", { class: v ? "grid-line" : "zero", x1: x(v), x2: x(v), y1: 0, y2: 22 })),
    value !== undefined && [s("rect", { class: "fillbar", x: rtl ? x(value) : 0, y: 5, width: `${(100 * Math.max(0, value)) / top}%`, height: 12 }),
    s("line", { class: "whisk", x1: x(low), x2: x(high), y1: 11, y2: 11 }),
    [low > 0 && low, high < 1 && high].filter(Boolean).map((v) => s("line", { class: "whisk", x1: x(v), x2: x(v), y1: 7, y2: 15 })),
    s("circle", { class: "dot", cx: x(value), cy: 11, r: 5 })]);
  return [h("table", { class: "bars" }, h("caption", { class: "visually-hidden" }, t.interval), h("tbody", null, labels.map((name, i) => h("tr", null, h("th", { scope: "row" }, name),
    h("td", { class: "est" }, parts[i].length ? pct(parts[i][0], 1) : "–"), h("td", { class: "int" }, parts[i].length ? `${num(100 * parts[i][1], 1)}–${num(100 * parts[i][2], 1)}` : ""), h("td", { class: "chart" }, chart(parts[i])))))),
    s("svg", { class: "axis", "aria-hidden": "true" }, steps.map((v, i) => s("text", { x: x(v), y: 13, "text-anchor": i === 0 ? "start" : i === steps.length - 1 ? "end" : "middle" }, i === steps.length - 1 ? pct(v) : num(100 * v))))];
}

/** What the marks mean. */
export const legend = () => h("p", { class: "legend", "aria-hidden": "true" },
  h("span", null, s("svg", { viewBox: "0 0 24 12" }, s("circle", { class: "dot", cx: 12, cy: 6, r: 5 })), t.estimate),
  h("span", null, s("svg", { viewBox: "0 0 24 12" }, s("path", { class: "whisk", d: "M1 6h22M1 2v8M23 2v8" })), t.interval));
