// Several queries side by side, each with its newest window.

import './bars.js';
import { badge, h, label, put, say, slot } from './dom.js';
import { frame } from './frames.js';
import { kindOf, rowsOf, standing } from './live.js';
import { clock, int } from './numbers.js';
import { store } from './store.js';

const MOST = 6;
/** @type {import('./live.js').Look} */
const LOOK = { unit: 'proportions', conf: 95, form: 'raw', inverted: false, bucket: -1, window: null, truth: [] };

/** @param {HTMLElement} main */
export function sideBySide(main) {
  main.className = 'view side';
  const all = [...store.queries.values()];
  const panels = all.slice(0, MOST).map((query) => {
    const bars = /** @type {import('./bars.js').DnBars} */ (document.createElement('dn-bars'));
    const condition = slot('span', `condition-${query.id}`), when = h('span', { class: 'small muted' });
    const article = h('article', { class: 'panel', 'data-testid': `panel-${query.id}` }, h('div', { class: 'part' },
      h('h2', { class: 'h-l' }, h('a', { href: `#live?q=${encodeURIComponent(query.id)}` }, label(query.question || query.id))), h('div', { class: 'now' }, condition, when)),
    h('div', { class: 'part' }, bars));
    const draw = () => {
      const result = store.newest(query.id);
      const now = store.queries.get(query.id) ?? query;
      put(condition, badge(kindOf(standing(now), now.stopped !== null), standing(now)));
      if (!result) return;
      say(when, `${clock(result.start, true)} to ${clock(result.end, true)} UTC, ${int(result.n)} answers`);
      if (!result.estimate) return;
      bars.show(rowsOf(query, result, LOOK, null), {
        counts: false, size: 1, picked: -1, confidence: 95, projected: false, missing: result.missing.length > 0,
        head: query.columns.map((column) => column.name).join(', '), caption: `${query.question} Window ${result.index}`,
      });
    };
    void store.latest(query.id).then(draw, () => undefined);
    return { id: query.id, article, draw };
  });
  put(main, h('div', { class: 'head' }, h('h1', null, 'Side by side'), h('span', { class: 'small muted' }, all.length > MOST ? `the newest ${MOST} of ${all.length} queries` : '')),
    h('div', { class: 'sides' }, panels.map((panel) => panel.article)));
  document.documentElement.dataset.ready = 'side';
  const onWindow = (/** @type {Event} */ event) => {
    const panel = panels.find((each) => each.id === /** @type {CustomEvent} */ (event).detail.result.query);
    if (panel) frame(panel, panel.draw);
  };
  const onQueries = () => { for (const panel of panels) frame(panel, panel.draw); };
  store.addEventListener('window', onWindow);
  store.addEventListener('queries', onQueries);
  return () => {
    store.removeEventListener('window', onWindow);
    store.removeEventListener('queries', onQueries);
  };
}
