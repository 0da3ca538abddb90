// Public: what people are being asked, for anyone. Signatures are checked in this browser, not by the server.

import { get } from './api.js';
import { factor } from './facts.js';
import { showFeed } from './feed.js';
import { badge, h, icons, key, label, put, s } from './dom.js';
import { onSize } from './frames.js';
import { canSign, keyId, unhex, verifies } from './keys.js';
import { duration, int, moment } from './numbers.js';

/** @typedef {import('./types.js').PublicQuery} PublicQuery */
/** @typedef {import('./types.js').PublicKey} PublicKey */

const MOST = 4;

/** The range that was signed, and what is in use of it, on one axis for all queries. @param {PublicQuery} query */
function range(query) {
  const [low, high] = query.envelope?.epsilon ?? [query.epsilon_local, query.epsilon_local], top = Math.max(MOST, Math.ceil(high));
  const svg = s('svg', { height: 28, role: 'img', 'aria-label': `epsilon ${query.epsilon_local.toFixed(2)} in use, signed for at most ${high.toFixed(2)}` }), box = h('div', { class: 'range' }, svg);
  onSize(box, (width) => {
    const x = (/** @type {number} */ e) => 4 + (e / top) * (width - 8);
    svg.setAttribute('width', String(width));
    put(svg, Array.from({ length: MOST + 1 }, (_, i) => s('line', { class: i ? 'grid' : 'zero', x1: x((i * top) / MOST), x2: x((i * top) / MOST), y1: 0, y2: 28 })),
      s('rect', { class: 'bar-fill', x: x(low), width: Math.max(0, x(high) - x(low)), y: 9, height: 10, rx: 2 }), s('line', { class: 'ceiling', x1: x(high), x2: x(high), y1: 5, y2: 23 }), s('circle', { class: 'dot', cx: x(query.epsilon_local), cy: 14, r: 5 }));
  });
  return box;
}

function scale() {
  const svg = s('svg', { height: 16, 'aria-hidden': 'true' }), box = h('div', { class: 'range' }, svg);
  onSize(box, (width) => {
    svg.setAttribute('width', String(width));
    put(svg, [0, 1, 2, 3, 4].map((e) => s('text', { x: 4 + (e / MOST) * (width - 8), y: 12, 'text-anchor': e ? (e === MOST ? 'end' : 'middle') : 'start' }, e)));
  });
  return box;
}

/** Why a signature does not hold; empty if it does. @param {PublicQuery} query @param {PublicKey[]} keys @returns {Promise<string>} */
async function problemOf({ signed }, keys) {
  const found = keys.find((each) => each.id === signed.key);
  if (!found) return 'no such key is published';
  if (found.revoked) return 'its key was revoked';
  if ((await keyId(unhex(found.public))) !== found.id) return 'the key is not the one it is named';
  if (!(await verifies(found.public, signed.signature, signed.query))) return 'the signature does not hold';
  return JSON.parse(signed.query).analyst === found.owner ? '' : 'the key is somebody else\u2019s';
}

/** @param {PublicQuery} query @param {PublicKey[]} keys */
function row(query, keys) {
  const told = JSON.parse(query.signed.query), life = told.budget.epsilon?.f64 ? double(told.budget.epsilon.f64) : null;
  const mark = h('span', { class: 'small', 'data-testid': `signature-${query.id}` }, 'checking \u2026');
  const checked = canSign() ? problemOf(query, keys).catch(() => 'this browser cannot check it') : Promise.resolve('checking needs https or this machine itself');
  void checked.then((problem) => put(mark, problem ? badge('refused', problem) : h('span', { class: 'good' }, icons.complete(), 'verified here')));
  return {
    checked,
    tr: h('tr', { 'data-testid': `public-${query.id}` },
      h('th', { scope: 'row' }, h('p', { class: 'q label' }, told.question || query.id), h('p', { class: 'small muted' }, label(told.analyst), ` \u00b7 every ${duration(told.schedule.every)} until ${moment(told.schedule.expires).slice(0, 10)}${query.versions.length > 1 ? ` \u00b7 version ${query.serial} of ${query.versions.length}` : ''}${query.stopped ? ' \u00b7 stopped' : ''}`),
        h('details', null, h('summary', null, 'What exactly is asked'), h('div', { class: 'exact' }, h('code', null, told.sql), h('pre', { class: 'tiny quiet summary' }, query.summary)))),
      h('td', { class: 'c-range' }, range(query)), h('td', { class: 'num', 'data-name': 'an answer' }, h('b', null, query.epsilon_local.toFixed(2)), h('span', { class: 'tiny quiet' }, `${query.epsilon_sampled.toFixed(2)} sampled, among ${query.sampled_crowd === null ? 'any' : int(query.sampled_crowd)} (delta ${query.delta_sampled})`)),
      h('td', { class: 'num', 'data-name': 'for life' }, life === null ? 'no bound' : life.toFixed(0)), h('td', { class: 'sig' }, mark, h('code', { class: 'tiny quiet' }, `${query.signed.key.slice(0, 4)}\u2026${query.signed.key.slice(-4)}`))),
    life,
  };
}

/** A double by its bits, as canonical bytes write it. @param {string} digits */
const double = (digits) => new DataView(unhex(digits).buffer).getFloat64(0);

/** @param {HTMLElement} main */
export async function openToAll(main) {
  /** @type {{queries: PublicQuery[], keys: PublicKey[]}} */
  const told = await get('/v1/public/queries');
  const running = told.queries.filter((query) => query.stopped === null), rows = told.queries.map((query) => row(query, told.keys));
  const analysts = new Set(running.map((query) => JSON.parse(query.signed.query).analyst)).size;
  const most = Math.max(0, ...running.map((query) => query.epsilon_local)), lives = rows.map((each) => each.life).filter((life) => life !== null);
  const holding = h('dd', { class: 'big', 'data-testid': 'signatures' }, '\u2026'), feed = h('div', { class: 'part' });
  const figure = (/** @type {string} */ name, /** @type {Node|string} */ value, /** @type {string} */ text) => h('div', null, h('dt', { class: 'small muted' }, name), typeof value === 'string' ? h('dd', { class: 'big' }, value) : value, h('dd', { class: 'tiny quiet' }, text));
  put(main, h('div', { class: 'hello' }, h('h1', null, 'What people are being asked'),
    h('p', { class: 'lead', 'data-testid': 'lead' }, `${running.length} question${running.length === 1 ? '' : 's'} by ${analysts} analyst${analysts === 1 ? '' : 's'} run${running.length === 1 ? 's' : ''} now. Every one is signed, and listed here whether you are asked or not. No sign-in is needed.`)),
  h('dl', { class: 'figures' }, figure('the most one answer costs', most.toFixed(2), `local epsilon: nobody\u2019s odds change by more than a factor ${factor(most)}`),
    figure('all of them, answered once', running.reduce((sum, query) => sum + query.epsilon_local, 0).toFixed(2), 'what a person loses who answers each of them one time'),
    figure('the most for life', lives.length < rows.length ? 'no bound' : Math.max(0, ...lives).toFixed(2), 'the largest total that any of them may spend on one person'),
    figure('signatures that hold', holding, 'checked in this browser against the published keys, not by the server')),
  h('section', { class: 'panel' }, h('div', { class: 'part' }, h('div', { class: 'head' }, h('h2', { class: 'h-l' }, 'Signed questions'), h('div', { class: 'legend' }, key('epsilon in use, an answer', s('circle', { class: 'dot', cx: 12, cy: 6, r: 5 })),
    key('signed range and its ceiling', s('rect', { class: 'bar-fill', x: 1, y: 1, width: 20, height: 10, rx: 2 }), s('line', { class: 'ceiling', x1: 21, x2: 21, y1: 0, y2: 12 })))),
  rows.length ? h('table', { class: 'asked' }, h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'question'), h('th', { scope: 'col', class: 'c-range' }, h('span', { class: 'visually-hidden' }, 'epsilon, signed range'), scale()), h('th', { scope: 'col', class: 'num' }, 'an answer'), h('th', { scope: 'col', class: 'num' }, 'for life'), h('th', { scope: 'col' }, 'signature'))),
    h('tbody', null, rows.map((each) => each.tr))) : h('p', { class: 'small muted' }, 'No questions are being asked here at the moment.'))),
  h('section', { class: 'panel' }, h('div', { class: 'part' }, h('h2', { class: 'h-l' }, 'Everything that was ever asked')), feed));
  void Promise.all(rows.map((each) => each.checked)).then((problems) => {
    holding.textContent = `${problems.filter((problem) => !problem).length} of ${problems.length}`;
    document.documentElement.dataset.ready = 'public';
  });
  await showFeed(feed).catch((error) => put(feed, h('p', { class: 'small bad-text' }, error instanceof Error ? error.message : String(error))));
}
