// Every reason to stop. Each says whether something was sent.

import { h, icons } from "./dom.js";
import { button } from "./parts.js";
import { copyState, ways } from "./screens.js";
import { day, spaced, t } from "./words.js";

const plate = (icon, title, ...lines) => h("div", { class: "plate" }, icons[icon](), h("h1", null, title), lines.map((line) => h("p", null, line)));

const PLAIN = {
  bye: () => plate("closed", t.bye, t.byeSay),
  clock: () => plate("down", t.clock, t.clockSay),
  late: () => plate("closed", t.late, t.lateSay),
  store: () => plate("withheld", t.store, t.storeSay),
  http: () => plate("down", t.plainHttp, t.plainHttpSay),
};

export const stop = (app) => {
  const kind = app.stop;
  const retry = button(t.tryAgain, () => location.reload(), "primary", "again");
  const see = app.questions.length > 0 && button(t.see, () => app.go("results", { before: "stop" }), "primary", "see");
  const rows = () => h("ul", { class: "ways panel" }, ways(app, (i) => copyState(app.copies[i] ?? { state: "silent" })));
  if (kind in PLAIN) return { body: [PLAIN[kind]()] };
  if (kind === "closed") return { body: [plate("closed", t.closed, t.closedSay(day(Math.min(app.document.end, Date.now() / 1000))))], actions: see ? [see] : null };
  if (kind === "already") return { body: [plate("ok", t.already, t.alreadySay(day(app.answeredOn ?? Date.now() / 1000)))], actions: [see] };
  if (kind === "used") return { body: [plate("withheld", t.used, t.usedSay, t.usedAsk), app.document.contact && h("dl", { class: "facts panel" }, h("dt", null, t.contact), h("dd", { class: "break" }, app.document.contact))] };
  if (kind === "off") return { body: [plate("down", t.off, t.offSay), app.document && rows()], actions: [retry] };
  if (kind === "half") {
    const silent = app.document.proxies[app.copies.findIndex(({ state }) => state !== "same")].url;
    return { body: [plate("down", t.half, t.halfSay(silent)), rows()], actions: [retry] };
  }
  return tampered(app);
};

/** A poll that is not the one in the link: the whole page says so, and there is no way on. */
const tampered = (app) => {
  const why = t[app.fault];
  const print = (text) => h("dd", { class: "mono break isolate" }, spaced(text));
  const prints = app.print ? [h("dt", null, t.keyWant), print(app.link.key), h("dt", null, t.keyGot), print(app.print)] : app.copies.filter(Boolean).map((copy, i) => [h("dt", null, t.shownBy(app.document.proxies[i].url)), print(copy.shown.slice(0, 16))]);
  const told = h("p", { class: "small", role: "status" });
  const report = [t.tampered, why, location.origin, ...app.copies.filter(Boolean).map(({ state, shown }) => `${state} ${shown}`)].join("\n");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(report);
      told.textContent = t.copied;
    } catch {
      told.textContent = report;
    }
  };
  return {
    loud: true,
    body: [
      h("div", { role: "alert" }, plate("bad", t.tampered, t.tamperedSay, h("b", null, t.tamperedNothing))),
      h("section", { class: "panel stack" }, h("h2", null, t.checks), app.document && h("ul", { class: "ways" }, ways(app, (i) => copyState(app.copies[i]))), h("p", { class: "bad", "data-testid": "fault" }, h("b", null, why)), h("dl", { class: "facts wide" }, prints)),
      h("p", null, t.tellThem), told,
    ],
    actions: [button(t.copy, copy, "", "copy")],
  };
};
