// What the crowd said, with what is not known about it. Where nothing is released, the same frame is empty.

import { h, icons, put } from "./dom.js";
import { bars, button, legend } from "./parts.js";
import { clock, inLanguage, num, t } from "./words.js";

/** The newest released window of a question; null if there is none, undefined if nobody replies. */
const newest = async ({ aggregator }, id) => {
  try {
    const response = await fetch(`${aggregator}/v1/public/queries/${encodeURIComponent(id)}/results?limit=1`, { credentials: "omit", redirect: "error", referrerPolicy: "no-referrer" });
    if (response.status === 404) return null;
    if (!response.ok) return undefined;
    const { windows } = await response.json();
    return windows[0] ?? null;
  } catch {
    return undefined;
  }
};

const shown = (app, question, found) => {
  const language = app.language(question.texts);
  const options = question.options[language];
  const heading = h("h2", inLanguage(language), question.texts[language]);
  if (!found) {
    const ended = Date.now() / 1000 >= app.document.end;
    const why = found === undefined ? t.noResults : app.document.results === "end" && !ended ? t.soon : t.withheldSay(num(app.document.minimum));
    return [heading, h("p", null, h("span", { class: "badge wait" }, icons.withheld(), t.withheld)), h("section", { class: "panel" }, bars(options, options.map(() => []))), h("p", null, why)];
  }
  const parts = options.map((_, i) => [found.estimate[i], found.low[i], found.high[i]]);
  const widest = Math.max(...parts.map(([, low, high]) => (high - low) / 2));
  return [heading, h("p", { class: "head-row" }, h("span", { class: "badge ok", "data-testid": "n" }, icons.ok(), t.answers(num(found.n))), h("span", { class: "small quiet" }, t.live(clock(found.end)))),
    h("section", { class: "panel", "data-testid": "bars" }, bars(options, parts), legend()), h("p", { class: "small muted" }, t.whisker, " ", t.reach(num(100 * widest, 1)))];
};

export const results = (app) => {
  const box = h("div", { class: "stack", role: "status" });
  if (app.document.results === "private") put(box, h("p", null, t.hidden));
  else {
    void Promise.all(app.questions.map(async (question) => shown(app, question, await newest(app.document, question.query)))).then((found) => {
      put(box, found);
      box.dataset.loaded = "yes";
    });
  }
  const notes = h("p", { class: "small muted" }, app.document.answer === "codes" ? t.once : t.anyone, " ", t.ofThose);
  return {
    body: [h("div", { class: "stack tight" }, h("p", { class: "small quiet isolate" }, app.document.key.owner), h("h1", inLanguage(app.tongue), app.texts.title)), box, notes],
    actions: app.before ? [button(t.back, () => app.go(app.before), "", "back")] : null,
  };
};
