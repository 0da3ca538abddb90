// Elements without innerHTML: every text is a text node, whatever a label holds.

const NS = 'http://www.w3.org/2000/svg';

/** @typedef {Node|string|number|null|undefined|false} Kid */
/** @typedef {Kid|Kid[]|Kid[][]} Kids */
/** @typedef {Record<string, unknown>|null} Props */

/**
 * @template {Element} T
 * @param {T} el
 * @param {Props} props
 * @param {Kids[]} kids
 * @returns {T}
 */
function fill(el, props, kids) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') {
      for (const [type, listener] of Object.entries(/** @type {Record<string, EventListener>} */ (value))) {
        el.addEventListener(type, listener);
      }
    } else if (name === 'value' || name === 'checked') {
      Reflect.set(el, name, value);
    } else {
      el.setAttribute(name, value === true ? '' : String(value));
    }
  }
  const flat = /** @type {Kid[]} */ (kids.flat(3));
  for (const kid of flat) if (kid !== null && kid !== undefined && kid !== false) el.append(kid instanceof Node ? kid : String(kid));
  return el;
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {...Kids} kids
 * @returns {HTMLElementTagNameMap[K]}
 */
export const h = (tag, props = null, ...kids) => fill(document.createElement(tag), props, kids);

/**
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {...Kids} kids
 * @returns {SVGElementTagNameMap[K]}
 */
export const s = (tag, props = null, ...kids) => fill(document.createElementNS(NS, tag), props, kids);

/**
 * Write attributes, and only those that change.
 * @param {Element} el
 * @param {Record<string, string|number|null>} attributes
 */
export function set(el, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) el.removeAttribute(name);
    else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, String(value));
  }
}

/** @template {Element} T @param {T} el @param {...Kids} kids @returns {T} */
export function put(el, ...kids) {
  el.replaceChildren();
  return fill(el, null, kids);
}

/** @param {Node} node @param {string} text */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A text of somebody else: shown as it is, and its direction ends with it. @param {string} text */
export const label = (text) => h('span', { class: 'label' }, text);

let hatched = 0;
/** Hatchings, under unique names, because a hidden chart's patterns are not drawn. */
export function hatches() {
  const suffix = `-${++hatched}`;
  const defs = s('defs', null, [['data', 5], ['warn', 7], ['ink', 6]].map(([name, gap]) =>
    s('pattern', { id: `hatch-${name}${suffix}`, width: gap, height: gap, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' },
      s('line', { class: `hatch-${name}`, x1: 0, y1: 0, x2: 0, y2: gap }))));
  return { defs, fill: (/** @type {'data'|'warn'|'ink'} */ name) => `url(#hatch-${name}${suffix})` };
}

/**
 * A switch: a group of radio buttons.
 * @param {string} name
 * @param {[string, string, (string|null)?][]} options value, text, and why it is off
 * @param {string} value
 * @param {(value: string) => void} change
 * @param {string} title
 */
export function segmented(name, options, value, change, title) {
  return h('div', { class: 'seg', role: 'radiogroup', 'aria-label': title, 'data-testid': `switch-${name}` }, options.map(([v, text, off]) =>
    h('label', off ? { title: off } : null,
      h('input', { type: 'radio', name, value: v, checked: v === value, disabled: Boolean(off), on: { change: () => change(v) } }),
      h('span', null, text))));
}

/** @param {...SVGElement} parts */
const icon = (...parts) => s('svg', {
  viewBox: '0 0 16 16', 'aria-hidden': 'true', fill: 'none', stroke: 'currentColor', 'stroke-width': 1.75, 'stroke-linecap': 'round',
  'stroke-linejoin': 'round',
}, parts);
/** @param {string} d */
const path = (d) => s('path', { d });
const ring = () => s('circle', { cx: 8, cy: 8, r: 6.5 });

export const icons = {
  complete: () => icon(ring(), path('M5.2 8.2l2 2 3.6-4.2')),
  down: () => icon(path('M8 2.2l6.3 11.3H1.7z'), path('M8 6.6v3.2M8 11.7v.1')),
  overdue: () => icon(path('M4 2h8M4 14h8M5 2c0 3 2 4 3 6c-1 2-3 3-3 6M11 2c0 3-2 4-3 6c1 2 3 3 3 6')),
  withheld: () => icon(s('circle', { cx: 8, cy: 8, r: 6.5, 'stroke-dasharray': '2.4 2.6' }), path('M5 8h6')),
  refused: () => icon(ring(), path('M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8')),
  revised: () => icon(path('M13.5 8a5.5 5.5 0 1 1-1.7-4M13.6 1.8v2.8h-2.8')),
  stopped: () => icon(s('rect', { x: 2.5, y: 2.5, width: 11, height: 11, rx: 2 })),
  waiting: () => icon(ring(), path('M8 4.5V8l2.4 1.6')),
  theme: () => icon(s('circle', { cx: 8, cy: 8, r: 6 }), s('path', { d: 'M8 2a6 6 0 0 1 0 12z', fill: 'currentColor' })),
  prev: () => icon(path('M10 3L5 8l5 5')),
  next: () => icon(path('M6 3l5 5-5 5')),
  lock: () => icon(s('rect', { x: 3, y: 7, width: 10, height: 7, rx: 1.5 }), path('M5.2 7V5a2.8 2.8 0 0 1 5.6 0v2')),
  info: () => icon(ring(), path('M8 7.2v4M8 4.8v.1')),
};
/** @typedef {keyof typeof icons} Icon */

/** A condition: shape, word and colour say the same. @param {Icon} kind @param {string} text */
export const badge = (kind, text) => h('span', { class: `badge ${kind}` }, icons[kind](), h('span', null, text));

/** One entry of a legend. @param {string} text @param {...SVGElement} marks */
export const key = (text, ...marks) => h('span', null, s('svg', { viewBox: '0 0 24 12', 'aria-hidden': 'true' }, marks), text);

/**
 * A table row with a name, and its value or what stands for it.
 * @param {string} tag @param {string} testid @param {string} kind
 */
export const slot = (tag, testid, kind = '') => h(/** @type {'span'} */ (tag), { 'data-testid': testid, class: kind || null });

/**
 * Offer a file.
 * @param {string} name @param {BlobPart|Blob} content @param {string} kind
 */
export function save(name, content, kind) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: kind }));
  const link = h('a', { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
