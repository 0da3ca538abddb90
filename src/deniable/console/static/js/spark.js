// The ± of the newest windows against the target.

import { s } from './dom.js';
import { pct } from './numbers.js';

const WIDTH = 264, HEIGHT = 64;

/**
 * @param {(number|null)[]} reaches the ± of each window
 * @param {number[]} serials its version
 * @param {number|null} wish
 */
export function spark(reaches, serials, wish) {
  const seen = reaches.filter((v) => v !== null);
  const middle = wish ?? [...seen].sort((a, b) => a - b)[Math.floor(seen.length / 2)] ?? 1;
  const low = Math.min(middle * 0.6, 0.9 * Math.min(middle, ...seen)), high = middle * 1.4, n = Math.max(1, reaches.length - 1);
  const x = (/** @type {number} */ i) => (i / n) * WIDTH, y = (/** @type {number} */ v) => HEIGHT - ((v - low) / (high - low)) * HEIGHT;
  let path = '', pen = 'M';
  const over = [];
  for (const [i, v] of reaches.entries()) {
    if (v === null || v > high) {
      pen = 'M';
      if (v !== null) over.push(s('path', { class: 'over', d: `M${x(i) - 3.5} 6l3.5 -6l3.5 6z` }));
      continue;
    }
    path += `${pen}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
    pen = 'L';
  }
  const rules = serials.flatMap((serial, i) => (i && serial !== serials[i - 1] ? [s('line', { class: 'version', x1: x(i), x2: x(i), y1: 0, y2: HEIGHT })] : []));
  const aim = wish === null ? [] : [s('line', { class: 'wish', x1: 0, x2: WIDTH, y1: y(wish), y2: y(wish) })];
  const told = wish === null ? '' : ` against the target of ${pct(wish)}`;
  return s('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT + 2}`, width: '100%', class: 'spark', role: 'img', 'aria-label': `± of ${reaches.length} windows${told}` },
    rules, s('path', { class: 'line', d: path || 'M0 0' }), aim, over.slice(-40));
}
