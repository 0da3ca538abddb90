// One of a long list: a combobox. The list is on the page, so what is typed is sent nowhere.

import { h, put, say } from "./dom.js";
import { num, t } from "./words.js";

const MOST = 8;
const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLocaleLowerCase();

/** Places of options that hold the text; those that begin with it come first. */
const matching = (options, typed) => {
  const wanted = plain(typed.trim());
  const found = options.flatMap((option, i) => {
    const place = plain(option).indexOf(wanted);
    return place < 0 ? [] : [[place > 0, i]];
  });
  return found.sort(([a, i], [b, j]) => a - b || i - j).map(([, i]) => i);
};

export const searched = (app, text, options, fail) => {
  let [shown, active] = [[], -1];
  const list = h("ul", { class: "found", id: "found", role: "listbox", "aria-label": text, hidden: true });
  const status = h("p", { class: "small muted", role: "status", "data-testid": "found" });
  const field = h("input", { class: "field", id: "search", type: "text", role: "combobox", autocomplete: "off", spellcheck: "false", "aria-autocomplete": "list", "aria-controls": "found", "aria-expanded": "false", "aria-describedby": "search-hint", "data-testid": "search" });
  const close = () => {
    [shown, active] = [[], -1];
    draw();
  };
  const choose = (i) => {
    app.answers[app.index] = [i];
    field.value = options[i];
    say(fail, "");
    close();
    say(status, t.chosen(options[i]));
  };
  const draw = () => {
    put(list, shown.map((i, at) => h("li", { id: `found-${i}`, role: "option", "aria-selected": String(at === active), class: at === active ? "now" : null, "data-testid": `option-${i}`, on: { mousedown: (event) => event.preventDefault(), click: () => choose(i) } }, options[i])));
    list.hidden = !shown.length;
    field.setAttribute("aria-expanded", String(shown.length > 0));
    if (active >= 0) field.setAttribute("aria-activedescendant", `found-${shown[active]}`);
    else field.removeAttribute("aria-activedescendant");
  };
  const search = () => {
    app.answers[app.index] = undefined; // what is typed is not yet an answer
    const all = field.value.trim() ? matching(options, field.value) : [];
    [shown, active] = [all.slice(0, MOST), -1];
    draw();
    say(status, !field.value.trim() ? "" : all.length ? t.found(num(all.length)) : t.none);
  };
  field.addEventListener("input", search);
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length) {
      active = (active + step + shown.length + (active < 0 && step < 0 ? 1 : 0)) % shown.length;
      draw();
    } else if (event.key === "Enter" && active >= 0) choose(shown[active]);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  const held = app.answers[app.index]?.[0];
  if (held !== undefined) {
    field.value = options[held];
    say(status, t.chosen(options[held]));
  }
  return h("div", { class: "stack tight" }, h("label", { for: "search" }, h("b", null, t.search)), field, list, h("p", { class: "small muted", id: "search-hint" }, t.searchHint), status);
};
