// Elements without innerHTML: every text is a text node, whatever a poll's author wrote.

const NS = "http://www.w3.org/2000/svg";

function fill(el, props, kids) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [type, run] of Object.entries(value)) el.addEventListener(type, run);
    else if (name === "value" || name === "checked") el[name] = value;
    else el.setAttribute(name, value === true ? "" : String(value));
  }
  for (const kid of kids.flat(3)) if (kid !== null && kid !== undefined && kid !== false) el.append(kid instanceof Node ? kid : String(kid));
  return el;
}
export const h = (tag, props, ...kids) => fill(document.createElement(tag), props, kids);
export const s = (tag, props, ...kids) => fill(document.createElementNS(NS, tag), props, kids);
export function put(el, ...kids) {
  while (el.firstChild) el.firstChild.remove();
  return fill(el, null, kids);
}
export const say = (el, text) => { if (el.textContent !== text) el.textContent = text; };

const icon = (...parts) => s("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", fill: "none", stroke: "currentColor", "stroke-width": 1.75, "stroke-linecap": "round", "stroke-linejoin": "round" }, parts);
const path = (d) => s("path", { d });
const ring = () => s("circle", { cx: 8, cy: 8, r: 6.5 });
export const icons = {
  ok: () => icon(ring(), path("M5.2 8.2l2 2 3.6-4.2")),
  bad: () => icon(path("M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2z"), path("M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4")),
  down: () => icon(path("M8 2.2l6.3 11.3H1.7z"), path("M8 6.6v3.2M8 11.7v.1")),
  waiting: () => icon(ring(), path("M8 4.5V8l2.4 1.6")),
  withheld: () => icon(s("circle", { cx: 8, cy: 8, r: 6.5, "stroke-dasharray": "2.4 2.6" }), path("M5 8h6")),
  closed: () => icon(s("rect", { x: 2.5, y: 2.5, width: 11, height: 11, rx: 2 })),
  help: () => icon(ring(), path("M6.2 6.4a1.9 1.9 0 1 1 2.5 1.9c-.5.2-.7.5-.7 1.1M8 11.6v.1")),
  theme: () => icon(s("circle", { cx: 8, cy: 8, r: 6 }), s("path", { d: "M8 2a6 6 0 0 1 0 12z", fill: "currentColor" })),
  coin: () => icon(ring(), s("path", { d: "M8 1.5a6.5 6.5 0 0 1 0 13z", fill: "currentColor" })),
  crowd: () => icon(s("circle", { cx: 5.5, cy: 5.5, r: 2.2 }), path("M1.5 13c.3-2.6 1.8-4 4-4s3.7 1.4 4 4"), path("M10.4 3.5a2.2 2.2 0 0 1 0 4M12 9.4c1.5.6 2.3 1.8 2.5 3.6")),
  eye: () => icon(path("M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8z"), s("circle", { cx: 8, cy: 8, r: 1.8 })),
  odds: () => icon(path("M2 13.500h12M4 13V9.500M8 13V6M12 13V2.5")),
  cut: () => icon(path("M2 4h5M9 4h5M2 12h5M9 12h5M8 1.500v13")),
};

/** The brand is an undecided coin: half heads, half tails. */
export const logo = () => s("svg", { class: "logo", viewBox: "0 0 20 20", "aria-hidden": "true" },
  s("circle", { cx: 10, cy: 10, r: 8.25, fill: "none", stroke: "currentColor", "stroke-width": 1.75 }),
  s("path", { d: "M10 1.75a8.25 8.25 0 0 1 0 16.5z", fill: "currentColor" }),
  s("path", { d: "M5.5 4.500v11M7.8 3v14", stroke: "currentColor", "stroke-width": 0.9 }));
