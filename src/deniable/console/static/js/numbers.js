// Numbers and times as people read them. A true minus, a thin space before %, as many digits as the ± supports.

const THIN = '\u202f';

/** @param {string} text */
export const minus = (text) => text.replace('-', '\u2212');
/** @param {number} x */
export const int = (x) => minus(Math.round(x).toLocaleString('en-US'));

/** Percent without its sign. @param {number} proportion @param {number} [digits] */
export function bare(proportion, digits = 1) {
  const text = (100 * proportion).toFixed(digits);
  return minus(Number(text) === 0 ? (0).toFixed(digits) : text);
}
/** @param {number} proportion @param {number} [digits] */
export const pct = (proportion, digits = 1) => `${bare(proportion, digits)}${THIN}%`;
/** @param {number} proportion @param {number} [digits] */
export const signed = (proportion, digits = 1) => `${proportion > 0 ? '+' : ''}${bare(proportion, digits)}`;

/** Decimals of a percentage that show two significant digits of its ±. @param {number} reach */
export function decimals(reach) {
  const points = 100 * Math.abs(reach);
  if (!(points > 0)) return 1;
  return Math.min(4, Math.max(0, 1 - Math.floor(Math.log10(points))));
}

/** @param {number} time seconds of UTC @param {boolean} [seconds] */
export const clock = (time, seconds = false) => new Date(time * 1000).toISOString().slice(11, seconds ? 19 : 16);
/** @param {number} time */
export const day = (time) =>
  new Date(time * 1000).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
/** @param {number} time */
export const moment = (time) => `${new Date(time * 1000).toISOString().slice(0, 19)}Z`;

/** Labels of at most so many characters, cut in their middle; those that would look the same get their number in front.
 * @param {string[]} labels @param {number} most */
export function elided(labels, most) {
  const end = (most - 1) >> 1;
  const cut = labels.map((name) => (name.length > most ? `${name.slice(0, most - 1 - end)}\u2026${name.slice(-end)}` : name));
  return cut.map((name, i) => (cut.indexOf(name) === cut.lastIndexOf(name) ? name : `${i + 1} ${name.slice(0, most - 2 - String(i + 1).length)}\u2026`));
}

const UNITS = /** @type {[string, number][]} */ ([['w', 604800], ['d', 86400], ['h', 3600], ['min', 60], ['s', 1]]);
/** A duration in its largest whole unit. @param {number} seconds */
export function duration(seconds) {
  const [unit, size] = UNITS.find(([, length]) => seconds % length === 0) ?? ['s', 1];
  return `${seconds / size}\u00a0${unit}`;
}
/** How long ago. @param {number} seconds */
export const ago = (seconds) =>
  seconds < 90 ? `${Math.max(0, Math.round(seconds))}\u00a0s` : seconds < 5400 ? `${Math.round(seconds / 60)}\u00a0min` : `${Math.round(seconds / 3600)}\u00a0h`;

/** A large number in words. @param {number} x */
export function words(x) {
  if (x >= 1e9) return 'more than a billion';
  if (x >= 1e6) return `${Math.round(x / 1e6).toLocaleString('en-US')} million`;
  if (x >= 1e3) return int(Number(x.toPrecision(2)));
  return x >= 20 ? int(x) : x.toFixed(x < 10 ? 1 : 0);
}

/**
 * Round steps that cover a range.
 * @param {number} low @param {number} high @param {number} about how many
 */
export function ticks(low, high, about) {
  const raw = Math.max(1e-12, high - low) / about;
  const ten = 10 ** Math.floor(Math.log10(raw));
  const step = ten * (/** @type {number} */ ([1, 2, 5, 10].find((m) => m * ten >= raw * 0.999)));
  const values = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-6; v += step) values.push(Math.abs(v) < 1e-12 ? 0 : v);
  return { step, values };
}

/** Decimals that tell the steps of a percentage apart. @param {number} step */
export const stepDigits = (step) => Math.min(4, Math.max(0, -Math.floor(Math.log10(100 * step) + 1e-9)));

/**
 * The axis of a live chart: it grows at once, and shrinks only when the data fill less than 60 % of it.
 * @param {[number, number]|null} domain @param {number} low @param {number} high @returns {[number, number]}
 */
export function settle(domain, low, high) {
  const wide = high - Math.min(0, low);
  if (domain && low >= domain[0] && high <= domain[1] && wide > 0.6 * (domain[1] - domain[0])) return domain;
  const fine = ticks(Math.min(0, low), Math.max(high, 1e-6), 8).step / 5;
  return [low < 0 ? Math.floor(low / fine - 0.25) * fine : 0, Math.ceil(Math.max(high, 1e-6) / fine + 0.5) * fine];
}

/**
 * Points of a line thinned to the columns of a screen: of each column the first, the least, the largest and the last, so that no
 * peak is lost.
 * @param {number[]} xs ascending @param {number[]} ys
 * @returns {number[]} which points are kept
 */
export function thinned(xs, ys) {
  const n = xs.length;
  if (n < 3 || n <= 2 * (xs[n - 1] - xs[0])) return xs.map((_, i) => i);
  const kept = [];
  for (let i = 0; i < n;) {
    const column = Math.floor(xs[i]);
    let least = i, most = i, last = i;
    for (let j = i; j < n && Math.floor(xs[j]) === column; j++) {
      if (ys[j] < ys[least]) least = j;
      if (ys[j] > ys[most]) most = j;
      last = j;
    }
    kept.push(...[...new Set([i, least, most, last])].sort((a, b) => a - b));
    i = last + 1;
  }
  return kept;
}

/**
 * The names of a query's labels as a table shows them: of several columns, their buckets beside each other.
 * @param {{labels: string[], columns: {labels: string[]}[]}} query
 */
export function shortLabels(query) {
  if (query.columns.length < 2) return query.labels;
  const joined = query.columns.map((column) => column.labels).reduce((before, labels) => before.flatMap((first) => labels.map((second) => `${first} \u00b7 ${second}`)));
  return joined.length === query.labels.length ? joined : query.labels;
}
