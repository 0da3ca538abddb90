// Light and dark: the system's wish, unless somebody chose otherwise here.

import { h, icons, s } from './dom.js';

const root = document.documentElement;

export const logo = () => s('svg', { viewBox: '0 0 20 20', 'aria-hidden': 'true' },
  s('circle', { cx: 10, cy: 10, r: 8.25, fill: 'none', stroke: 'currentColor', 'stroke-width': 1.75 }),
  s('path', { d: 'M10 1.75a8.25 8.25 0 0 1 0 16.5z', fill: 'currentColor' }),
  s('path', { d: 'M4.5 6v8M7 4v12', stroke: 'currentColor', 'stroke-width': 1 }));

function flip() {
  const dark = (root.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
  root.dataset.theme = dark ? 'light' : 'dark';
  try {
    localStorage.setItem('theme', root.dataset.theme);
  } catch {
    // A browser that keeps nothing still has a theme.
  }
}

export const themeButton = () => h('button', {
  class: 'btn ghost icon', type: 'button', 'aria-label': 'Switch between light and dark', 'data-testid': 'theme', on: { click: flip },
}, icons.theme());

export function restoreTheme() {
  try {
    const kept = localStorage.getItem('theme');
    if (kept === 'light' || kept === 'dark') root.dataset.theme = kept;
  } catch {
    // The system's theme, then.
  }
}
