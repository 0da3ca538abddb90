/**
 * What is left of a worker's surroundings while it has somebody's rows: JavaScript's own objects and WebAssembly.
 * Everything else is removed by default, so that a browser's next way to the network is removed as well.
 */

const KEPT = new Set(
  `Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date Promise RegExp Error
  AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError JSON Math Intl ArrayBuffer Uint8Array
  Int8Array Uint16Array Int16Array Uint32Array Int32Array Float32Array Float64Array Uint8ClampedArray BigUint64Array
  BigInt64Array DataView Map BigInt Set WeakMap WeakSet WeakRef Proxy Reflect FinalizationRegistry decodeURI
  decodeURIComponent encodeURI encodeURIComponent escape unescape isFinite isNaN WebAssembly TextDecoder TextEncoder
  globalThis self constructor performance console Iterator`.split(/\s+/),
);

/** Ways out of a worker, of which none may be left. */
export const WAYS_OUT = `fetch fetchLater XMLHttpRequest WebSocket WebSocketStream WebTransport EventSource RTCPeerConnection importScripts
  indexedDB caches BroadcastChannel MessageChannel SharedWorker Worker Notification navigator localStorage sessionStorage
  cookieStore postMessage process require Buffer eval SharedArrayBuffer`.split(/\s+/);

/** Remove these, or all but what is kept. @param {(name: string) => boolean} goes */
const remove = (goes) => {
  for (let where = globalThis; where && where !== Object.prototype; where = Object.getPrototypeOf(where)) {
    for (const name of Object.getOwnPropertyNames(where)) {
      if (!goes(name)) continue;
      if (!Reflect.deleteProperty(where, name)) Reflect.defineProperty(where, name, { value: undefined });
    }
  }
};

/** Before SQLite is loaded: nothing with which its package would start workers and open files of its own. */
export const removeStorage = () => remove((name) => ["Worker", "SharedWorker", "SharedArrayBuffer", "indexedDB", "caches"].includes(name));

/** Before the rows come: everything else. Throws if a way out is left. */
export const confine = () => {
  const quiet = () => undefined;
  globalThis.console = /** @type {Console} */ (/** @type {unknown} */ ({ log: quiet, info: quiet, warn: quiet, error: quiet, debug: quiet }));
  remove((name) => !KEPT.has(name));
  const left = WAYS_OUT.filter((name) => name in globalThis && Reflect.get(globalThis, name) !== undefined);
  if (left.length) throw new Error(`the worker still has ${left.join(", ")}`);
};
