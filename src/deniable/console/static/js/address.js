// The view is in the address: a link shows what its sender saw. Never tokens, never keys.

export function read() {
  const [name, rest = ''] = location.hash.slice(1).split('?');
  return { name: name || 'live', state: new URLSearchParams(rest) };
}

/** Note what changed, without a step in the history. @param {Record<string, string|number|null>} changes */
export function note(changes) {
  const { name, state } = read();
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) state.delete(key);
    else state.set(key, String(value));
  }
  history.replaceState(null, '', `#${name}${state.size ? `?${state}` : ''}`);
}

/** @param {string} name @param {Record<string, string|number>} [state] */
export function go(name, state = {}) {
  const given = new URLSearchParams(Object.entries(state).map(([key, value]) => [key, String(value)]));
  location.hash = `#${name}${given.size ? `?${given}` : ''}`;
}
