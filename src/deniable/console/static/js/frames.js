// One requestAnimationFrame for all charts. What arrives between two frames is drawn once; hidden pages do not draw at all.

/** @type {Map<object, (now: number) => boolean|void>} */
const wanted = new Map();
let asked = 0;

/** @param {number} now */
function run(now) {
  asked = 0;
  const list = [...wanted];
  wanted.clear();
  for (const [owner, draw] of list) if (draw(now) === true && !wanted.has(owner)) wanted.set(owner, draw);
  if (wanted.size) asked = requestAnimationFrame(run);
}

/**
 * Have something drawn in the next frame; a drawing that returns true is called again in the one after.
 * @param {object} owner a second wish of the same owner replaces the first
 * @param {(now: number) => boolean|void} draw
 */
export function frame(owner, draw) {
  wanted.set(owner, draw);
  asked ||= requestAnimationFrame(run);
}

/**
 * Call back with the size whenever it changes, in a frame after it was measured.
 * @param {Element} el @param {(width: number, height: number) => void} changed
 */
export function onSize(el, changed) {
  const owner = {};
  new ResizeObserver(([entry]) => {
    const { width, height } = entry.contentRect;
    if (width > 0) frame(owner, () => changed(width, height));
  }).observe(el);
}

const still = matchMedia('(prefers-reduced-motion: reduce)');
const GLIDE = 240;

/** How far a glide that began at a time has come, from 0 to 1. @param {number} began @param {number} now */
export function glided(began, now) {
  if (still.matches) return 1;
  const part = Math.min(1, Math.max(0, (now - began) / GLIDE));
  return 1 - (1 - part) ** 3;
}
