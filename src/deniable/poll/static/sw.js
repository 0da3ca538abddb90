// Keeps the page's files, so that the page opens without a network. A file that is not the one named here is neither kept nor shown.

const FILES = {/* path: SHA-256 */};
const FIRST = ["", "poll.css", "poll.js"];
const NAME = `poll-${Object.values(FILES).join("")}`;

const read = async (path) => {
  const cache = await caches.open(NAME);
  const found = await cache.match(`/${path}`);
  if (found) return found;
  const response = await fetch(`/${path}`, { cache: "no-store", redirect: "error" });
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", await response.clone().arrayBuffer()));
  if (Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("") !== FILES[path]) throw new TypeError(`/${path} was changed`);
  await cache.put(`/${path}`, response.clone());
  return response;
};

const renew = async () => {
  for (const name of await caches.keys()) if (name !== NAME) await caches.delete(name);
  await clients.claim();
};

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(Promise.all(FIRST.map(read)));
});
addEventListener("activate", (event) => event.waitUntil(renew()));
addEventListener("fetch", (event) => {
  const { origin, pathname } = new URL(event.request.url);
  const path = pathname.slice(1);
  if (origin === location.origin && event.request.method === "GET" && Object.hasOwn(FILES, path)) event.respondWith(read(path));
});
