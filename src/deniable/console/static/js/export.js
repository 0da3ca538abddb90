// What one sees, as a file: CSV, SVG, PNG, or one HTML page that needs nothing else.

import { h, s, save } from './dom.js';
import { crowdWords } from './facts.js';
import { elided, int, moment } from './numbers.js';

/** @typedef {{query: import('./types.js').Query, result: import('./types.js').WindowResult|null, bars: import('./bars.js').DnBars,
 *   line: import('./timeline.js').DnTimeline, series: import('./types.js').Series|null, look: import('./live.js').Look}} Seen */

const PROPERTIES = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linejoin', 'font-family', 'font-size', 'font-weight', 'opacity', 'visibility', 'shape-rendering'];

/** A copy whose styles are attributes, so that it looks the same elsewhere. @param {SVGSVGElement} svg */
export function frozen(svg) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  const from = [svg, ...svg.querySelectorAll('*')], to = [copy, ...copy.querySelectorAll('*')];
  from.forEach((el, i) => {
    const style = getComputedStyle(el);
    for (const name of PROPERTIES) {
      const value = style.getPropertyValue(name);
      if (value && !(name === 'fill' && el.getAttribute('fill')?.startsWith('url('))) to[i].setAttribute(name, value);
    }
    for (const name of ['class', 'style', 'aria-hidden', 'role', 'tabindex']) to[i].removeAttribute(name);
  });
  return copy;
}

/** The whole picture: title, labels, marks, figures, and what it rests on. @param {Seen} seen */
export function picture({ query, result, bars, look }) {
  const rows = bars.rows, marks = frozen(bars.marks);
  const css = getComputedStyle(document.documentElement), body = getComputedStyle(document.body);
  const ink = body.color, quiet = colour('--ink-3'), paper = colour('--surface');
  const width = Number(bars.marks.getAttribute('width')), height = Number(bars.marks.getAttribute('height'));
  const left = 168, right = 240, top = 84, row = (height - 28) / Math.max(1, rows.length), total = left + width + right;
  const font = { 'font-family': body.fontFamily, 'font-size': 14, fill: ink };
  const text = (/** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ words, more = {}) => s('text', { ...font, x, y, ...more }, words);
  marks.setAttribute('x', String(left));
  marks.setAttribute('y', String(top));
  marks.setAttribute('overflow', 'visible');
  const cells = bars.querySelectorAll('tbody tr');
  const names = elided(rows.map((each) => each.label.replace(/\s+/g, ' ')), 18);
  const figures = rows.flatMap((_, i) => {
    const y = top + (i + 0.5) * row + 5, tds = cells[i].children;
    return [text(16, y, names[i]), text(left + width + 96, y, tds[2].firstElementChild?.textContent ?? '', { 'text-anchor': 'end', 'font-weight': 600 }),
      text(total - 16, y, tds[3].textContent ?? '', { 'text-anchor': 'end', fill: quiet })];
  });
  const when = result ? `${moment(result.start)} to ${moment(result.end)}, ${int(result.n)} answers, ${result.condition}` : '';
  const rests = `${look.conf} % intervals${look.form === 'projected' ? ', projected' : ''}${look.inverted ? ', inverted' : ''}; epsilon, local ${query.epsilon_local.toFixed(4)} an answer`;
  void css;
  return s('svg', { xmlns: 'http://www.w3.org/2000/svg', width: total, height: top + height + 32, viewBox: `0 0 ${total} ${top + height + 32}` },
    s('rect', { width: '100%', height: '100%', fill: paper }), text(16, 32, query.question || query.id, { 'font-size': 20, 'font-weight': 600 }),
    text(16, 56, when, { fill: quiet }), marks, figures, text(16, top + height + 20, rests, { fill: quiet, 'font-size': 12 }));
}

/** A colour as it is at the moment. @param {string} name */
function colour(name) {
  const probe = h('span', { class: 'visually-hidden' });
  probe.style.setProperty('color', `var(${name})`);
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

/** A cell that a spreadsheet takes for text, even where it begins like a formula: the rule of `spreadsheet_cell` in display.py. @param {unknown} value */
function cell(value) {
  let text = value === null || value === undefined ? '' : String(value);
  if (typeof value === 'string' && /^[=+\-@\t\r]/.test(text) && !NUMBER.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {Seen} seen */
export function csv({ query, result, bars, look }) {
  const header = ['query', 'version', 'window', 'start', 'end', 'condition', 'answers', 'label', 'estimate', 'low', 'high', 'confidence', 'form', 'epsilon_local'];
  const rows = bars.rows.map((row) => [query.id, result?.serial, result?.index, result?.start, result?.end, result?.condition, result?.n, row.label,
    row.value, row.low, row.high, look.conf / 100, `${look.form}${look.inverted ? ' inverted' : ''}`, query.epsilon_local]);
  return [header, ...rows].map((row) => row.map(cell).join(',')).join('\r\n') + '\r\n';
}

/** @param {SVGSVGElement} svg @returns {Promise<Blob>} */
export async function png(svg) {
  const scale = 2, width = Number(svg.getAttribute('width')), height = Number(svg.getAttribute('height'));
  const address = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(svg)], { type: 'image/svg+xml' }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = h('canvas', { width: width * scale, height: height * scale });
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    context.scale(scale, scale);
    context.drawImage(image, 0, 0);
    return await new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('no picture'))), 'image/png'));
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** A page of its own: the picture, the time line and the table, without a script. @param {Seen} seen */
export function page(seen) {
  const { query, result, bars, line, look } = seen;
  const doc = document.implementation.createHTMLDocument(`${query.id}, window ${result?.index ?? ''}`);
  const make = (/** @type {string} */ tag, /** @type {string} */ words) => Object.assign(doc.createElement(tag), { textContent: words });
  const meta = doc.createElement('meta');
  meta.setAttribute('charset', 'utf-8');
  const policy = doc.createElement('meta');
  policy.setAttribute('http-equiv', 'Content-Security-Policy');
  policy.setAttribute('content', "default-src 'none'");
  doc.head.prepend(meta, policy);
  const table = doc.createElement('table');
  table.setAttribute('border', '1');
  const head = table.insertRow();
  for (const name of ['label', 'estimate', 'low', 'high']) head.append(make('th', name));
  for (const row of bars.rows) {
    const tr = table.insertRow();
    for (const value of [row.label, row.value, row.low, row.high]) tr.append(make('td', typeof value === 'number' ? value.toFixed(5) : value));
  }
  doc.body.append(make('h1', query.question || query.id),
    make('p', result ? `${query.id} version ${result.serial}, ${query.analyst}. Window ${result.index}, ${moment(result.start)} to ${moment(result.end)}: ${int(result.n)} answers, ${result.condition}.` : ''),
    make('p', `${look.conf} % intervals. Epsilon, local: ${query.epsilon_local.toFixed(4)} an answer; sampled: ${query.epsilon_sampled.toFixed(4)}, ${crowdWords(query)}.`),
    doc.importNode(picture(seen), true), make('h2', `Over time: ${query.labels[look.bucket]}`), doc.importNode(frozen(line.marks), true), make('h2', 'Table'), table,
    make('pre', JSON.stringify(result, null, 1)));
  return `<!doctype html>\n${new XMLSerializer().serializeToString(doc.documentElement)}`;
}

/** @param {() => Seen} look */
export function exportMenu(look) {
  const name = (/** @type {Seen} */ seen, /** @type {string} */ end) => `${seen.query.id}-window-${seen.result?.index ?? 'none'}.${end}`;
  /** @type {[string, (seen: Seen) => void|Promise<void>][]} */
  const kinds = [
    ['csv', (seen) => save(name(seen, 'csv'), csv(seen), 'text/csv')],
    ['svg', (seen) => save(name(seen, 'svg'), new XMLSerializer().serializeToString(picture(seen)), 'image/svg+xml')],
    ['png', async (seen) => save(name(seen, 'png'), await png(picture(seen)), 'image/png')],
    ['html', (seen) => save(name(seen, 'html'), page(seen), 'text/html')],
  ];
  const menu = h('details', { class: 'menu' }, h('summary', { class: 'btn ghost', 'data-testid': 'export' }, 'Export'),
    h('div', { class: 'menu-box' }, kinds.map(([kind, act]) => h('button', {
      class: 'btn ghost', type: 'button', 'data-testid': `export-${kind}`,
      on: { click: () => { menu.open = false; void act(look()); } },
    }, kind.toUpperCase()))));
  return menu;
}
