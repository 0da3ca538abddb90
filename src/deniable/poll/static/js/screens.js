// Loading, consent, what leaves, sending, the receipt, and how it protects.

import { h, icons, put } from "./dom.js";
import { button, noise, odds } from "./parts.js";
import { day, inLanguage, languageName, num, spaced, t, times } from "./words.js";

const CODE = /^[A-Z2-7]{20}$/;
const factor = (epsilon) => times(Math.exp(epsilon));
const host = (url) => url.replace(/^https?:\/\//, "");

/** A row for each proxy. */
export const ways = (app, state) =>
  app.document.proxies.map(({ url }, i) => {
    const [icon, text, kind] = state(i);
    return h("li", null, h("span", { class: kind }, icons[icon]()), h("span", { class: "isolate break" }, host(url)), h("span", { class: kind || "quiet" }, text));
  });

export const copyState = (copy) => {
  if (!copy) return ["waiting", t.asking, ""];
  if (copy.state === "same") return ["ok", copy.kept ? t.kept : t.same, "good"];
  return ["silent", "gone"].includes(copy.state) ? ["down", t.silent, "warn"] : ["bad", t.differs, "bad"];
};

export const loading = (app) => ({
  body: [h("h1", null, t.loading), h("p", { class: "muted" }, t.loadingWhy), app.document && h("ul", { class: "ways panel", "aria-live": "polite" }, ways(app, (i) => copyState(app.copies[i])))],
});

/** The consent screen is a label of consequences: what happens to the answer, in the order in which it happens. */
export const consent = (app) => {
  const { texts, document, questions, tongue } = app;
  const lang = inLanguage(tongue);
  const many = questions.length > 1;
  const asked = document.answer === "codes" && !app.link.code;
  const fail = h("p", { class: "err", role: "alert" });
  const code = h("input", { class: "field mono", id: "code", autocomplete: "off", autocapitalize: "characters", spellcheck: "false", maxlength: 30, "aria-describedby": "code-say", "data-testid": "code" });
  const start = async () => {
    if (asked) {
      const typed = code.value.toUpperCase().replace(/[^A-Z0-9]/g, "");
      if (!CODE.test(typed)) {
        fail.textContent = t.codeBad;
        code.focus();
        return;
      }
      await app.useCode(typed);
    }
    app.go("question", { index: 0 });
  };
  const item = (icon, title, ...kids) => h("li", null, icons[icon](), h("div", null, h("b", null, title), kids));
  const fact = (name, value) => value && [h("dt", null, name), h("dd", { class: "break", ...lang }, value)];
  return {
    body: [
      h("div", { class: "stack tight" }, h("p", { class: "ok-line" }, icons.ok(), t.signed), h("p", { class: "muted" }, h("span", { class: "asker isolate", ...lang }, document.key.owner), ` ${t.asks}`), h("h1", lang, texts.title), h("p", { class: "small quiet" }, t.facts(num(questions.length), num(many ? 3 : 1), day(document.end)))),
      tongue.split("-")[0] !== t.lang && h("p", { class: "small muted" }, t.only(Object.keys(document.texts).map(languageName).join(", "))),
      texts.why && h("p", lang, texts.why),
      h("section", { class: "panel" }, h("h2", null, many ? t.labels : t.label), h("ul", { class: "label" },
        item("coin", t.coins, h("p", null, t.coinsSay)),
        item("odds", t.odds, h("p", null, many ? t.oddsAll(factor(app.epsilon)) : t.oddsSay(factor(app.epsilon))), odds(app.epsilon), app.epsilon > 2 && many && h("p", null, t.weak)),
        item("crowd", t.crowd, h("p", null, t.crowdSay(num(document.minimum)))),
        item("eye", t.shows, h("p", null, t.showsSay)))),
      h("p", { class: "small muted" }, t.stop),
      (texts.results_to || document.contact) && h("dl", { class: "facts" }, fact(t.goes, texts.results_to), fact(t.contact, document.contact)),
      asked && h("div", { class: "stack tight" }, h("label", { for: "code" }, h("b", null, t.code)), code, h("p", { class: "small muted", id: "code-say" }, t.codeSay), fail),
    ],
    actions: [button(t.agree, start, "primary", "agree"), button(t.not, () => app.halt("bye"), "plain")],
  };
};

const saidText = (app, i) => {
  const question = app.questions[i];
  const options = question.options[app.language(question.options)];
  return app.said[i].length ? app.said[i].map((place) => options[place]).join(", ") : t.nothing;
};

export const leaves = (app) => {
  const many = app.questions.length > 1;
  const pieces = h("div", { class: "pieces" });
  void Promise.all(app.questions.map((question) => question.look())).then((found) => {
    put(pieces, app.document.proxies.map(({ url, by }, i) => {
      const bytes = found.flatMap(({ shares }) => Array.from(shares[i] ?? []));
      const digits = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
      return h("figure", null, noise(bytes.slice(-48), i), h("figcaption", null, h("b", { class: "isolate" }, host(url)), h("br"), by && h("span", { class: "quiet" }, `${t.runBy} ${by}`),
        h("details", null, h("summary", null, t.bytes(num(bytes.length))), h("code", { class: "mono break", "data-testid": `bytes-${i}` }, digits))));
    }));
  });
  const text = (i) => app.questions[i].texts[app.language(app.questions[i].texts)];
  const slip = many
    ? [h("p", { class: "small muted" }, t.slips), h("dl", null, app.said.map((_, i) => h("div", null, h("dt", null, text(i)), h("dd", null, h("b", null, saidText(app, i))))))]
    : [h("p", { class: "small muted" }, t.slip), h("b", { "data-testid": "said" }, saidText(app, 0))];
  const hand = app.mode === "hand";
  const drop = async () => {
    await Promise.all(app.questions.map((question) => question.drop()));
    app.said = null;
    app.halt("bye");
  };
  return {
    body: [
      h("div", { class: "stack tight" }, h("h1", null, t.leaves), h("p", { class: "muted" }, t.leavesSay)),
      h("div", { class: "torn" }, h("div", { class: `slip${many ? " many" : ""}` }, slip, h("p", { class: "small muted" }, t.sure)), h("p", { class: "small muted" }, t.torn), pieces),
      h("p", { class: "small muted" }, t.together),
      h("ul", { class: "list-notes panel" }, h("li", null, h("b", null, `${t.also}: `), app.document.answer === "codes" ? t.alsoSay : t.alsoOpen), h("li", null, h("b", null, `${hand ? t.handKept : t.erased}: `), hand ? t.handKeptSay : t.erasedSay)),
    ],
    actions: [button(t.send, () => app.go("sending"), "primary", "send"), button(t.dont, drop, "plain", "dont")],
  };
};

const WAY = { goes: ["waiting", "pieceGoes", ""], waits: ["waiting", "pieceWaits", ""], there: ["ok", "pieceThere", "good"] };

export const sending = (app) => {
  const box = h("ul", { class: "ways panel", role: "status" });
  const [title, why, again] = [h("h1", null, t.sending), h("p", { class: "muted" }), h("div")];
  let states = app.document.proxies.map(() => "goes");
  const draw = () => {
    put(box, ways(app, (i) => [WAY[states[i]][0], t[WAY[states[i]][1]], WAY[states[i]][2]]));
    const waiting = states.filter((state) => state === "waits").length;
    title.textContent = waiting ? t.queued : t.sending;
    why.hidden = !waiting;
    why.textContent = waiting === states.length ? t.queuedSay(day(app.document.end)) : waiting ? t.halfSent : "";
    put(again, waiting > 0 && button(t.tryAgain, run, "", "again"));
  };
  const run = async () => {
    states = states.map(() => "goes");
    draw();
    const ends = [];
    for (const question of app.questions) ends.push(await question.send(() => undefined));
    const found = await Promise.all(app.questions.map((question) => question.look()));
    const refused = ends.includes("used") || ends.includes("410");
    if (refused || ends.every((end) => end === "sent")) await app.kept.change((kept) => void (kept.code = ""));
    if (refused) {
      await Promise.all(app.questions.map((question) => question.drop()));
      app.halt(ends.includes("used") ? "used" : "late");
      return;
    }
    states = app.document.proxies.map(({ url }) => (found.some(({ waiting }) => waiting.includes(url)) ? "waits" : "there"));
    draw();
    if (states.includes("waits")) {
      addEventListener("online", run, { once: true });
      return;
    }
    app.said = null;
    app.answeredOn = Math.min(...found.map(({ time }) => time));
    if (app.step === "sending") app.go("sent");
  };
  draw();
  void run();
  return { body: [title, why, box, again] };
};

const saveReceipt = (lines) => {
  const address = URL.createObjectURL(new Blob([lines.join("\n")], { type: "text/plain" }));
  h("a", { href: address, download: "receipt.txt" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 9000);
};

export const sent = (app) => {
  const f = factor(app.epsilon);
  const places = app.document.proxies.map(({ url }) => host(url)).join(", ");
  const rows = [[t.asked, app.document.key.owner], [t.about, app.texts.title], [t.day, day(app.answeredOn)], [t.to, places], [t.cost, t.costSay(num(app.epsilon, 2))], [t.digest, spaced(app.link.poll)]];
  return {
    body: [
      h("div", { class: "big-ok" }, h("span", { class: "good" }, icons.ok()), h("h1", null, t.sent)),
      h("section", { class: "ticket", "aria-label": t.receipt, "data-testid": "receipt" },
        h("div", null, h("dl", { class: "facts" }, rows.map(([name, value]) => [h("dt", null, name), h("dd", { class: "break isolate" }, value)]))),
        h("div", null, h("div", { class: "factor" }, h("span", { class: "times", "aria-hidden": "true" }, `×\u202f${f}`), h("p", null, t.oddsPast(f))), odds(app.epsilon))),
      h("p", { class: "small muted" }, t.proves),
    ],
    actions: [button(t.see, () => app.go("results", { before: "sent" }), "primary", "see"), button(t.save, () => saveReceipt([t.receipt, "", ...rows.map(([name, value]) => `${name}: ${value}`), "", t.oddsPast(f), t.proves, ""]), "plain", "save")],
  };
};

/** How it protects, at any step. */
export const how = (app) => ({
  body: [
    h("h1", null, t.how), h("p", null, t.howSay),
    h("section", { class: "panel" }, h("h2", null, t.seesTitle), h("dl", { class: "who-sees" }, t.sees.map(([who, what]) => h("div", null, h("dt", null, who), h("dd", null, what))))),
    h("section", { class: "panel" }, h("h2", null, t.notTitle), h("ul", { class: "nots" }, t.nots.map((each) => h("li", null, each)))),
    h("section", { class: "panel stack" }, h("h2", null, t.checkTitle), h("p", { class: "small" }, t.checkSay), app.link && h("dl", { class: "facts wide" }, h("dt", null, t.pollHash), h("dd", { class: "mono break" }, spaced(app.link.poll)), h("dt", null, t.keyHash), h("dd", { class: "mono break" }, spaced(app.link.key)))),
  ],
  actions: [button(t.back, () => app.go(app.before), "primary", "back")],
});
