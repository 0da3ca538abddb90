// The owner's page, on their own device: what was asked, what it cost, what is left, who may ask, and why nobody can be sure.

import { badge, h, icons, label, put, s } from './dom.js';
import { clock, day } from './numbers.js';
import { logo, restoreTheme, themeButton } from './theme.js';
import { toy } from './toy.js';

/** @typedef {import('./types.js').BalanceDocument} Balance */
/** @typedef {import('./types.js').ReceiptDocument} Receipt */
/** @typedef {import('./types.js').Person} Person */

const bar = /** @type {HTMLElement} */ (document.getElementById('bar'));
const main = /** @type {HTMLElement} */ (document.getElementById('main'));
const PAGE = 20;
let shown = PAGE;

/** @param {string} method @param {string} address @param {unknown} [body] @returns {Promise<any>} */
async function call(method, address, body) {
  const answer = await fetch(address, { method, credentials: 'same-origin', headers: { 'Content-Type': 'application/json', 'X-Deniable-CSRF': '1' }, body: body === undefined ? undefined : JSON.stringify(body) });
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const told = await answer.json().catch(() => ({ detail: `The device answered ${answer.status}.` }));
  throw new Error(told.detail);
}

/** A half ring: what is spent, by whom, and what is left. @param {Person} person */
function gauge(person) {
  const total = person.total;
  if (!total?.limit) return h('p', { class: 'small muted' }, 'Your settings set no limit for all answers together.');
  const r = 108, cx = 140, cy = 128, limit = total.limit;
  const at = (/** @type {number} */ f) => [cx - r * Math.cos(Math.PI * f), cy - r * Math.sin(Math.PI * f)];
  const arc = (/** @type {number} */ from, /** @type {number} */ to, /** @type {string} */ kind) => {
    const [x0, y0] = at(from), [x1, y1] = at(Math.max(from, to));
    return s('path', { class: `arc ${kind}`, d: `M${x0} ${y0}A${r} ${r} 0 0 1 ${x1} ${y1}` });
  };
  let from = 0;
  const spenders = person.analysts.filter((each) => each.spent > 0), sum = spenders.reduce((all, each) => all + each.spent, 0);
  const parts = spenders.map((each, i) => {
    const part = sum ? (total.spent / limit) * (each.spent / sum) : 0, drawn = arc(from, from + Math.max(0, part - 0.006), i % 2 ? 'b' : 'a');
    from += part;
    return drawn;
  });
  const left = total.left ?? 0;
  return h('figure', { class: 'gauge' }, s('svg', { viewBox: '0 0 280 140', role: 'img', 'aria-label': `${left.toFixed(2)} of ${limit} left` }, arc(Math.min(1, from), 1, 'left'), parts),
    h('figcaption', null, h('b', { 'data-testid': 'left' }, left.toFixed(1)), h('span', null, `of ${limit} left`)));
}

/** @param {Receipt} receipt @param {number} proxies */
function said(receipt, proxies) {
  const more = receipt.outcome === 'answered' && receipt.detail ? ` ${receipt.detail}.` : '';
  if (receipt.outcome === 'answered' && receipt.epsilon > 0) return ['complete', 'answered', 'Answered, randomized', `Each of ${proxies} proxies got noise; none of them can read it alone.${more}`];
  if (receipt.outcome === 'answered') return ['revised', 'replayed', 'Answered from a kept answer', `It was made from the permanent answer that you paid for before, and cost nothing more.${more}`];
  if (receipt.outcome === 'sampled out') return ['withheld', 'silent', 'Silent by chance', 'Your sampling coin said: not this time. It cost nothing.'];
  const detail = receipt.detail ?? '';
  return ['refused', 'refused', 'Refused', `${detail.charAt(0).toUpperCase()}${detail.slice(1)}. Nothing was sent.`];
}

/** @param {Receipt} receipt @param {number} proxies */
function row(receipt, proxies) {
  const [icon, kind, word, text] = said(receipt, proxies);
  const who = receipt.verified ? receipt.analyst : receipt.analyst ? `Somebody who claims to be ${receipt.analyst}` : 'Somebody without a key you trust';
  return h('li', { class: `receipt ${kind}`, 'data-testid': 'receipt' }, h('span', { class: 'mark' }, icons[/** @type {import('./dom.js').Icon} */ (icon)]()), h('div', null,
    h('p', { class: 'small muted' }, label(who), receipt.times > 1 ? ` asked ${receipt.times} times` : ' asked'), h('p', { class: 'q label' }, receipt.question || receipt.query || 'Something that was not read'), h('p', { class: 'small muted' }, h('b', null, `${word}. `), label(text))),
  h('div', { class: 'price' }, h('span', { class: 'tiny quiet' }, clock(receipt.time)), h('span', { class: receipt.epsilon ? 'paid' : 'quiet' }, receipt.epsilon ? `\u2212${receipt.epsilon.toFixed(2)}` : '0')));
}

/** @param {Person} person */
function receipts(person) {
  /** @type {Map<string, Receipt[]>} */ const days = new Map();
  const today = day(person.now), yesterday = day(person.now - 86400);
  for (const receipt of person.receipts.slice(0, shown)) {
    const name = day(receipt.time), spoken = name === today ? 'Today' : name === yesterday ? 'Yesterday' : name;
    days.set(spoken, [...(days.get(spoken) ?? []), receipt]);
  }
  if (!days.size) return [h('p', { class: 'small muted' }, 'Nobody has asked anything yet.')];
  const more = person.receipts.length > shown && h('button', { class: 'btn ghost more', type: 'button', on: { click: () => { shown += PAGE; draw(person); } } }, 'Earlier');
  return [[...days].flatMap(([name, list]) => [h('h3', { class: 'day-h' }, name), h('ul', { class: 'receipts' }, list.map((each) => row(each, person.proxies.length)))]), more].flat();
}

/** @param {Person} person */
function analysts(person) {
  return person.analysts.map((each, i) => {
    const part = each.limit ? Math.min(1, each.spent / each.limit) : 0, track = h('div', { class: `track ${i % 2 ? 'b' : 'a'}`, role: 'img', 'aria-label': `${each.spent.toFixed(2)} used` }, h('i'));
    track.style.setProperty('--to', `${100 * part}%`);
    const choose = async () => {
      try {
        draw(await call('PUT', '/v1/person/refusals', { analyst: each.name, refused: !each.refused }));
      } catch (error) {
        failed(error);
      }
    };
    return h('li', { 'data-testid': `analyst-${i}` }, h('div', null, h('p', null, h('b', null, label(each.name))), h('p', { class: 'tiny quiet' }, each.refused ? 'refused: nothing is answered' : `${each.period ? `in any ${each.period}` : 'for life'}`)),
      h('button', { class: 'btn', type: 'button', 'data-testid': `refuse-${i}`, 'aria-label': `${each.refused ? 'Allow' : 'Refuse'} ${each.name} from now on`, on: { click: () => void choose() } }, each.refused ? 'Allow' : 'Refuse'),
      track, h('p', { class: 'tiny quiet nums' }, each.limit ? `${each.spent.toFixed(2)} of ${each.limit} used` : `${each.spent.toFixed(2)} used, no limit`));
  });
}

/** @param {Person} person */
function draw(person) {
  const since = person.now - 86400, answered = person.receipts.filter((each) => each.outcome === 'answered' && each.time > since).length;
  const tables = Object.entries(person.granted), period = person.total?.period ? `, ${person.total.period}` : '';
  const each = person.receipts.find((receipt) => receipt.epsilon > 0)?.epsilon, enough = each && person.total?.left ? Math.floor(person.total.left / each) : null;
  put(main, h('div', { class: 'hello' }, h('h1', null, `You answered ${answered} question${answered === 1 ? '' : 's'} since yesterday.`), h('p', { class: 'lead' }, 'Nobody can be sure what you said: coins on this device changed your answers before they left it.')),
    h('section', { class: 'panel budget', 'aria-label': 'Your budget' }, h('div', { class: 'part' }, h('div', { class: 'head' }, h('h2', null, `Your budget${period}`), h('span', { class: 'small quiet' }, 'epsilon')), gauge(person),
      h('p', { class: 'center muted small' }, enough === null ? 'When it is used up, your device says no for you.' : `Enough for about ${enough} more answers like the last one. When it is used up, your device says no for you.`)),
    person.analysts.length > 0 && h('ul', { class: 'part who-list' }, analysts(person))),
    h('section', { class: 'panel', 'aria-label': 'What is granted' }, h('div', { class: 'part stack' }, h('h2', null, 'What may be asked about'),
      tables.length ? h('ul', { class: 'small muted', 'data-testid': 'granted' }, tables.map(([table, columns]) => h('li', null, h('b', null, label(table)), ': ', label(columns.join(', '))))) : h('p', { class: 'small muted', 'data-testid': 'granted' }, 'Nothing is shared.'),
      h('p', { class: 'small muted' }, 'Pieces of an answer go to ', person.proxies.map((name, i) => [i ? ', ' : '', label(name)]), `. One answer may cost at most ${person.epsilon_per_answer}.`))),
    h('section', { class: 'panel', 'aria-label': 'Receipts' }, h('div', { class: 'part' }, h('h2', null, 'What was asked'), receipts(person))),
    h('section', { class: 'panel', 'aria-label': 'Try it' }, h('div', { class: 'part' }, h('h2', null, 'Why nobody can be sure'), h('p', { class: 'small muted meta' }, 'Toss the coins your device tosses.'), toy())));
  document.documentElement.dataset.ready = 'person';
}

/** @param {unknown} error */
function failed(error) {
  put(main, h('section', { class: 'panel' }, h('div', { class: 'part stack', role: 'alert', 'data-testid': 'failed' }, h('h1', null, 'This cannot be shown'), h('p', null, badge('refused', error instanceof Error ? error.message : String(error))))));
  document.documentElement.dataset.ready = 'failed';
}

restoreTheme();
main.className = 'view person';
bar.classList.add('person-bar');
put(bar, h('span', { class: 'brand' }, logo(), 'deniable'), h('span', { class: 'small muted' }, 'on this device'),
  h('div', { class: 'push' }, h('span', { class: 'pin-line', title: 'Only programs on this device can open this page' }, h('span', { class: 'pin' }, icons.lock()), location.hostname), themeButton()));
try {
  const token = location.hash.slice(1);
  if (token) {
    history.replaceState(null, '', location.pathname);
    await call('PUT', '/v1/session', { token });
  }
  draw(await call('GET', '/v1/person'));
} catch (error) {
  failed(error);
}
