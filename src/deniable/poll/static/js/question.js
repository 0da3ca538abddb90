// One question a screen. In "I toss myself" the answer is never entered: only what the coins let the person say.

import { h, put, say } from "./dom.js";
import { button, choices, segmented } from "./parts.js";
import { inLanguage, num, t } from "./words.js";
import { searched } from "./search.js";
import { byHand } from "./hand.js";

const budget = (app) => {
  const all = app.questions;
  const spent = all.slice(0, app.index + 1).reduce((sum, { epsilon }) => sum + epsilon, 0);
  const part = ({ epsilon }, i) => {
    const bar = h("i", { class: i < app.index ? "spent" : i === app.index ? "now" : null });
    bar.style.setProperty("flex", `${epsilon} 1 0%`);
    return bar;
  };
  return h("div", { class: "budget" }, h("div", { class: "budget-bar", "aria-hidden": "true" }, all.map(part)), h("div", { class: "tiny quiet" }, h("span", null, t.question(num(app.index + 1), num(all.length))), h("span", null, t.budget(num(spent, 1), num(app.epsilon, 1)))));
};

const numberField = (app, question, text, unit, options) => {
  const { low, high, step } = question;
  const range = h("p", { class: "small muted", role: "status" });
  const typed = h("input", { type: "number", inputmode: "numeric", min: low, max: high, autocomplete: "off", "aria-label": text, "data-testid": "number" });
  const slider = h("input", { type: "range", min: low, max: high, step: 1, "aria-label": text });
  const take = (value, from) => {
    const n = Number(value);
    const ok = value !== "" && Number.isInteger(n) && n >= low && n <= high;
    app.answers[app.index] = ok ? [Math.floor((n - low) / step)] : undefined;
    say(range, ok ? t.counts(`${options[app.answers[app.index][0]]} ${unit}`.trim()) : "\u00a0");
    if (from !== typed) typed.value = value;
    if (from !== slider && ok) slider.value = value;
    slider.classList.toggle("unset", !ok);
    if (skip) skip.querySelector("input").checked = false;
  };
  const last = options.length - 1;
  const skipped = () => {
    typed.value = "";
    say(range, "\u00a0");
    slider.classList.add("unset");
    app.answers[app.index] = [last];
  };
  const skip = question.optional ? choices("skip", options.slice(-1), () => false, skipped)[0] : null;
  for (const field of [typed, slider]) field.addEventListener("input", () => take(field.value, field));
  take("", slider);
  return h("div", { class: "number" }, typed, range, slider, h("div", { class: "ends tiny quiet" }, h("span", null, num(low)), h("span", null, `${num(high)} ${unit}`)), skip);
};

const several = (app, question, text, options, fail) => {
  const held = (app.answers[app.index] ??= []);
  const change = (i, box) => {
    const place = held.indexOf(i);
    if (place >= 0) held.splice(place, 1);
    else if (held.length < question.most) held.push(i);
    else {
      box.checked = false;
      say(fail, t.chooseMost(num(question.most)));
      return;
    }
    say(fail, "");
  };
  return h("div", { class: "stack" }, h("p", { class: "small muted" }, t.upTo(num(question.most))), h("div", { class: "choices", role: "group", "aria-label": text }, choices("answer", options, (i) => held.includes(i), change, "checkbox")));
};

const byPhone = (app, question, text, options, fail) => {
  const unit = question.unit?.[app.language(question.unit)] ?? "";
  if (question.kind === "number") return numberField(app, question, text, unit, options);
  if (question.kind === "list") return searched(app, text, options, fail);
  if (question.kind === "several") return several(app, question, text, options, fail);
  const change = (i) => {
    app.answers[app.index] = [i];
    say(fail, "");
  };
  return h("div", { class: `choices ${question.kind === "scale" ? "scale" : ""}`, role: "radiogroup", "aria-label": text }, choices("answer", options, (i) => app.answers[app.index]?.[0] === i, change));
};

export const asking = (app) => {
  const question = app.questions[app.index];
  const language = app.language(question.texts);
  const [text, options] = [question.texts[language], question.options[language]];
  const last = app.index + 1 === app.questions.length;
  const canHand = app.questions.every(({ hand }) => hand);
  const fail = h("p", { class: "err", role: "alert" });
  const box = h("div");
  const stays = h("p", { class: "small muted" }, t.stays);
  const go = button("", async () => {
    if (app.answers[app.index] === undefined) {
      say(fail, question.kind === "number" ? t.chooseRange(num(question.low), num(question.high)) : t.choose);
    } else if (app.mode === "hand" && last) {
      const said = app.answers.splice(0);
      for (const [i, each] of app.questions.entries()) {
        const receipt = await each.toss(said[i], true);
        if (receipt?.outcome !== "answered") return app.refuse(receipt);
      }
      app.said = await Promise.all(app.questions.map((each) => each.said()));
      app.go("leaves");
    } else if (last) app.go("toss");
    else app.go("question", { index: app.index + 1 });
    return undefined;
  }, "primary", "next");
  const show = () => {
    const hand = app.mode === "hand" && canHand;
    put(box, hand ? byHand(app, question, language, options) : h("div", inLanguage(language), byPhone(app, question, text, options, fail)));
    stays.hidden = hand;
    say(go, !last ? t.next : hand ? t.toCheck : t.toCoins);
  };
  const change = (mode) => {
    app.mode = mode;
    app.answers.length = 0;
    say(fail, "");
    show();
  };
  show();
  return {
    body: [app.questions.length > 1 && budget(app), h("h1", inLanguage(language), text), canHand && app.index === 0 && h("p", { class: "small muted who-tosses" }, t.who), canHand && app.index === 0 && segmented("mode", t.who, [["phone", t.phone], ["hand", t.hand]], app.mode, change), box, stays, fail],
    actions: [go],
  };
};
