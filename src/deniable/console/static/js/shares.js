// What became of the shares of a window, per proxy, and how the proxies are doing.

import { badge, h, label, put, say } from './dom.js';
import { ago, int } from './numbers.js';

/** @typedef {import('./types.js').WindowResult} WindowResult */
/** @typedef {import('./types.js').Health} Health */

const TERMS = /** @type {const} */ (['counted', 'orphaned', 'duplicate', 'late', 'malformed']);

export function sharesTable() {
  const words = h('p', { class: 'small muted', 'data-testid': 'balance' }), body = h('tbody');
  const part = h('div', { class: 'part' }, h('div', { class: 'head' }, h('h2', null, 'What happened to the shares'), words),
    h('table', { class: 'balance', 'data-testid': 'conservation' }, h('caption', { class: 'visually-hidden' }, 'Conservation of shares, per proxy'),
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'proxy'), h('th', { scope: 'col', class: 'num' }, 'received'),
        TERMS.map((term, i) => h('th', { scope: 'col', class: 'num' }, h('span', { class: 'op', 'aria-hidden': 'true' }, i ? '+ ' : '= '), term)),
        h('th', { scope: 'col', class: 'num' }, 'behind'))), body));
  return {
    part,
    /** @param {WindowResult} result @param {Health|null} health @param {import('./types.js').Query['overdue']} overdue */
    show(result, health, overdue) {
      const accounts = Object.entries(result.conservation.proxies ?? {});
      const doingOf = (/** @type {string} */ name) => health?.proxies.find((proxy) => proxy.name === name);
      const isUp = (/** @type {string} */ name) => (doingOf(name)?.condition ?? 'up') === 'up' && !doingOf(name)?.problem && !overdue?.proxies.includes(name);
      const up = accounts.filter(([name]) => isUp(name)).length;
      say(words, `${result.conservation.balanced ? 'All accounts balance.' : 'The accounts do not balance.'} ${up} of ${accounts.length} proxies up.`);
      put(body, accounts.map(([name, account]) => {
        const doing = doingOf(name), fine = isUp(name);
        const mark = badge(fine ? 'complete' : 'down', '');
        mark.classList.add('bare');
        mark.append(label(name.replace(/^https?:\/\//, '')));
        return h('tr', null, h('th', { scope: 'row', title: doing?.problem || name }, mark), h('td', { class: 'num' }, int(account.received)),
          TERMS.map((term) => h('td', { class: `num${account[term] ? '' : ' quiet'}`, 'data-name': term }, int(account[term]))),
          h('td', { class: 'num quiet' }, overdue?.proxies.includes(name) ? 'overdue' : doing ? (doing.lag ? ago(doing.lag) : 'no') : '\u2013'));
      }));
    },
  };
}
