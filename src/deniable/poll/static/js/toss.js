// The coins. They are drawn by the device's exact mechanism at the tap; what turns here only shows how they fell.

import { h, put, s, say } from "./dom.js";
import { button } from "./parts.js";
import { inLanguage, num, t } from "./words.js";

const MOVES = 1300;
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const stripes = (from, to, gap = 7) => {
  const lines = [];
  for (let x = from; x < to; x += gap) {
    const y = Math.sqrt(Math.max(0, 52 * 52 - (x - 60) ** 2));
    lines.push(s("line", { class: "hatch", x1: x, x2: x, y1: 60 - y, y2: 60 + y }));
  }
  return lines;
};
const rim = (kind) => s("circle", { class: kind, cx: 60, cy: 60, r: 51, "stroke-width": 1.5, "stroke-dasharray": "1.5 4.5" });
const word = (text, kind, y = 68) => s("text", { class: kind, x: 60, y, "font-size": text.length > 5 ? 18 : 26 }, text.length > 9 ? `${text.slice(0, 8)}…` : text);

/** A face. Heads shows a head, because then the person speaks; tails is hatched, because then chance does. */
const face = (kind, text = "") => {
  const svg = (...parts) => s("svg", { viewBox: "0 0 120 120" }, parts);
  const light = s("circle", { class: "disc", cx: 60, cy: 60, r: 58, "stroke-width": 2.5 });
  const dark = s("circle", { class: "ink-fill", cx: 60, cy: 60, r: 59 });
  if (kind === "idle") return svg(light, stripes(13, 60), s("path", { class: "ink-fill", d: "M60 1.5a58.5 58.5 0 0 1 0 117z" }));
  if (kind === "heads") return svg(dark, rim("page-line"), s("circle", { class: "page-fill", cx: 60, cy: 43, r: 14 }), s("path", { class: "page-fill", d: "M34 82c1-15 10-22 26-22s25 7 26 22z" }), s("text", { class: "on-ink", x: 60, y: 100, "font-size": 14 }, text));
  if (kind === "dark") return svg(dark, rim("page-line"), word(text, "on-ink"));
  if (kind === "cover") return svg(light, stripes(11, 110));
  if (kind === "mini") return svg(s("circle", { class: "disc", cx: 60, cy: 60, r: 55, "stroke-width": 9 }), s("path", { class: "ink-line", d: "M40 22v76M60 14v92M80 22v76", "stroke-width": 6 }));
  return svg(light, stripes(11, 110), s("rect", { class: "surface-fill", x: 18, y: 43, width: 84, height: 34, rx: 4 }), word(text, "on-page", text.length > 5 ? 66 : 69));
};
const coinOf = (front, back) => h("div", { class: "coin" }, h("div", { class: "face" }, front), h("div", { class: "face back" }, back));

/**
 * How the first coin fell, given what was drawn. The mechanism keeps an answer with probability p and says each other with
 * q; that is a first coin with probability p - q for heads, and else one of all answers. If the report differs from the
 * answer, it was tails; if not, it was heads with probability (p - q) / p = 1 - exp(-epsilon). This shows, and decides nothing.
 */
const wasHeads = (kept, epsilon) => kept && crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32 < 1 - Math.exp(-epsilon);

const ruleList = (single) =>
  h("ul", { class: "rules" }, h("li", null, face("heads"), h("span", null, h("b", null, `${t.rule1}: `), t.rule1Say)), h("li", null, face("mini"), h("span", null, h("b", null, `${t.rule2}: `), single ? t.rule2Say : t.rule2Many)));

/** Draw for all questions; the answers are erased before anything moves. Gives how each first coin fell, or null if a device refused. */
const draw = async (app) => {
  const answers = app.answers.splice(0);
  const fell = [];
  for (const [i, question] of app.questions.entries()) {
    const receipt = await question.toss(answers[i], false);
    if (receipt?.outcome !== "answered") {
      app.refuse(receipt);
      return null;
    }
    const [kept] = answers[i];
    const said = await question.said();
    fell.push({ said, heads: question.unary ? null : wasHeads(said[0] === kept, question.epsilon) });
    answers[i] = null;
  }
  app.said = fell.map(({ said }) => said);
  return fell;
};

export const tossing = (app) => {
  const { questions } = app;
  const single = questions.length === 1 && questions[0].kind === "yesno" && !questions[0].unary;
  const fell = h("div", { class: "fell", role: "status" });
  const go = h("div");
  const cover = button(app.cover ? t.uncover : t.cover, () => {
    app.cover = !app.cover;
    say(cover, app.cover ? t.uncover : t.cover);
    cover.setAttribute("aria-pressed", String(app.cover));
  }, "plain small", "cover");
  const done = (...lines) => {
    put(fell, lines);
    cover.hidden = true;
    put(go, button(t.toCheck, () => app.go("leaves"), "primary", "check"));
    go.firstChild.focus({ preventScroll: true });
  };
  const shown = single ? twoCoins(app, done) : rowsOfCoins(app, done);
  put(go, button(t.toss, async () => {
    go.firstChild.disabled = true;
    const drawn = await draw(app);
    if (drawn) shown.fall(drawn, app.cover);
  }, "primary", "toss"));
  return { body: [h("h1", null, t.coinTitle), ruleList(single), shown.box, fell, h("p", { class: "tiny quiet" }, t.coinNote), cover], actions: [go] };
};

const twoCoins = (app, done) => {
  const [question] = app.questions;
  const options = question.options[app.language(question.options)];
  const coins = [0, 1].map(() => coinOf(face("idle"), face("cover")));
  const captions = [t.first, t.second].map((text) => h("p", { class: "small muted" }, text));
  const box = h("div", { class: "coins", "aria-hidden": "true" }, coins.map((each, i) => h("div", { class: "slot" }, h("div", { class: "jump" }, each), h("i", { class: "ground" }), captions[i])));
  const fall = ([{ said: [place], heads }], hidden) => {
    const said = options[place];
    const covered = [face("cover"), face("cover")];
    const faces = hidden ? [covered, [face("cover"), face("cover")]] : [[face("heads", t.heads), face("tails", t.tails)], [face("dark", options[0]), face("light", options[1])]];
    coins.forEach((each, i) => {
      each.classList.toggle("on-back", i ? place === 1 : !heads);
      setTimeout(() => faces[i].forEach((side, j) => put(each.children[j], side)), still() ? 0 : 120 + 180 * i); // already turning
    });
    if (!still()) box.classList.add("tossing");
    setTimeout(() => {
      box.classList.remove("tossing");
      if (!hidden && heads) coins[1].classList.add("dim");
      say(captions[0], hidden ? t.covered : heads ? t.own : t.chance);
      say(captions[1], hidden ? t.covered : heads ? t.unused : said);
      done(h("p", null, hidden ? t.fellCovered : heads ? t.fellHeads : t.fellTails(said)), h("p", { class: "small muted" }, t.allErased));
    }, still() ? 0 : MOVES);
  };
  return { box, fall };
};

const rowsOfCoins = (app, done) => {
  const rows = app.questions.map((question) => {
    const disc = coinOf(face("idle"), face("cover"));
    const how = h("span", { class: "how" }, "–");
    const language = app.language(question.texts);
    return { disc, how, item: h("li", null, h("div", { class: "mini" }, h("div", { class: "jump mini" }, disc)), h("span", { class: "name", ...inLanguage(language) }, question.texts[language]), how) };
  });
  const fall = (drawn, hidden) => {
    rows.forEach(({ disc, how }, i) => {
      const { heads } = drawn[i];
      put(disc.children[0], face(hidden || heads === null ? "cover" : heads ? "heads" : "mini"));
      say(how, hidden ? t.covered : heads === null ? t.eachBit(num(app.questions[i].values.length)) : heads ? t.own : t.chance);
    });
    done(h("p", null, t.allErased));
  };
  return { box: h("ul", { class: "tosses panel" }, rows.map(({ item }) => item)), fall };
};
