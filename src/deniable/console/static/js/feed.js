// The public feed: every query and version that was ever published here. Its chain of hashes is checked in this browser.

import { get } from './api.js';
import { badge, h, icons, label, put } from './dom.js';
import { canSign, hex } from './keys.js';

/** @typedef {{seq: number, time: string, event: string, query?: string, serial?: number, analyst?: string, digest?: string, key?: string, why?: string, previous: string, epsilon?: {local: number}}} FeedLine */

const SEPARATOR = 'deniable chain 1\0';
const SHOWN = 50;
const text = new TextEncoder();
/** @type {Record<string, string>} */
const WORDS = { 'query.published': 'published', 'query.adapted': 'adapted', 'query.stopped': 'stopped', 'query.withdrawn': 'withdrawn', 'key.revoked': 'key revoked', 'log.repaired': 'log repaired', 'log.damaged': 'log damaged' };

/** @param {string} content */
const sha256 = async (content) => hex(await crypto.subtle.digest('SHA-256', text.encode(SEPARATOR + content)));

/** All lines, as they were written, and the head that the server states. @returns {Promise<{lines: string[], head: string}>} */
async function readAll() {
  /** @type {string[]} */ const lines = [];
  let head = '';
  for (let after = /** @type {number|null} */ (0); after !== null;) {
    const page = await get(`/v1/public/feed?after=${after}`);
    lines.push(...page.lines);
    head = String(page.head);
    if (page.next !== null && page.next <= after) throw new Error('The feed does not end.');
    after = page.next;
  }
  return { lines, head };
}

/** Why the chain does not hold; empty if it does. @param {string[]} lines @param {string} head @returns {Promise<string>} */
async function problemOf(lines, head) {
  let previous = await sha256('');
  for (const [i, line] of lines.entries()) {
    /** @type {FeedLine} */ const told = JSON.parse(line);
    if (told.seq !== i + 1) return `line ${i + 1} is missing`;
    if (told.previous !== previous) return `line ${i} was changed`;
    previous = await sha256(line);
  }
  return head === `${lines.length}:${previous}` ? '' : 'the last lines are not those that the server states';
}

/** @param {FeedLine} line @param {string} hash */
function entry(line, hash) {
  const what = line.query ? `${line.query}, version ${line.serial}` : line.key ?? '';
  const cost = line.epsilon ? ` \u00b7 epsilon ${line.epsilon.local.toFixed(2)} an answer` : line.why ? ` \u00b7 ${line.why}` : '';
  return h('li', null, h('span', { class: 'quiet nums' }, line.time.slice(0, 10)), h('span', null, h('b', null, WORDS[line.event] ?? label(line.event)), ' ', h('span', { class: 'muted' }, label(what + cost))),
    h('span', { class: 'small muted who-c' }, label(line.analyst ?? '')), h('code', { class: 'tiny quiet' }, hash.slice(0, 8)));
}

/** @param {HTMLElement} box */
export async function showFeed(box) {
  const { lines, head } = await readAll();
  const mark = h('p', { class: 'small', 'data-testid': 'chain' }, 'checking \u2026'), told = lines.map((line) => /** @type {FeedLine} */ (JSON.parse(line)));
  const hashes = [...told.slice(1).map((line) => line.previous), head.slice(head.indexOf(':') + 1)];
  put(box, mark, h('p', { class: 'small muted' }, 'Compare what your device was asked with this list: ', h('code', null, 'deniable client verify'), '. Note the head, and you will notice if the list is ever rewritten: ', h('code', { class: 'tiny feed-head', 'data-testid': 'feed-head' }, head)),
    h('ol', { class: 'log' }, told.map((line, i) => entry(line, hashes[i])).slice(-SHOWN).reverse()));
  const problem = canSign() ? await problemOf(lines, head) : 'checking the chain needs https or this machine itself';
  put(mark, problem ? badge('refused', problem) : h('span', { class: 'good' }, icons.complete(), `${lines.length} line${lines.length === 1 ? '' : 's'}, the chain verifies: checked here`));
}
