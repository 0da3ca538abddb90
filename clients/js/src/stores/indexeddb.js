/**
 * A store in IndexedDB, under a Web Lock. Two tabs never draw twice: the lock lets one of them work
 * at a time, and where there are no Web Locks, a state that another tab changed in the meantime is
 * not overwritten; the work is done again on the new one, and nobody has seen what was drawn before.
 */

import { StoreError, oneByOne } from "./memory.js";

/** @typedef {import("../state.js").State} State */

const TABLE = "state";

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(storeError(request.error));
  });

/** @param {DOMException | null} error */
const storeError = (error) => new StoreError(error?.name === "QuotaExceededError" ? "full" : "blocked", String(error));

/** @param {string} name @returns {Promise<IDBDatabase>} */
const connect = (name) => {
  try {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(TABLE);
    return done(request);
  } catch (error) {
    return Promise.reject(storeError(/** @type {DOMException} */ (error)));
  }
};

/** What can be done with the mark beside the database, which tells an eviction of it from a first visit. @param {() => any} use */
const mark = (use) => {
  try {
    return use();
  } catch {
    return null; // blocked, or a worker, which has no localStorage
  }
};

/**
 * @param {string} [name]
 * @returns {import("./memory.js").Store}
 */
export const indexedDbStore = (name = "deniable") => {
  const kept = `${name}:kept`;
  const inThisTab = oneByOne();
  /** @type {(what: string, work: () => Promise<any>) => Promise<any>} */
  const locked = (what, work) => (navigator.locks ? navigator.locks.request(`${name}:${what}`, work) : work());
  /** @type {(work: () => Promise<any>) => Promise<any>} */
  const exclusively = (work) => inThisTab(() => locked(TABLE, work));

  /** @returns {Promise<State | undefined>} */
  const load = async (/** @type {IDBDatabase} */ database) => done(database.transaction(TABLE).objectStore(TABLE).get(TABLE));

  /** Write the state, unless another tab has changed it since. @param {IDBDatabase} database @param {State} state @param {number} changes */
  const save = (database, state, changes) =>
    new Promise((resolve, reject) => {
      const transaction = database.transaction(TABLE, "readwrite", { durability: "strict" });
      const table = transaction.objectStore(TABLE);
      let saved = false;
      const current = table.get(TABLE);
      current.onsuccess = () => {
        saved = (current.result?.changes ?? 0) === changes;
        if (saved) table.put(state, TABLE);
      };
      transaction.oncomplete = () => resolve(saved);
      transaction.onabort = () => reject(storeError(transaction.error));
    });

  return {
    transaction: (create, work) =>
      exclusively(async () => {
        const database = await connect(name);
        try {
          for (;;) {
            const state = (await load(database)) ?? create(Boolean(mark(() => localStorage.getItem(kept))));
            const changes = state.changes;
            const result = await work(state);
            state.changes = changes + 1;
            if (await save(database, state, changes)) {
              mark(() => localStorage.setItem(kept, "1"));
              return result;
            }
          }
        } finally {
          database.close();
        }
      }),
    alone: (work) => locked("upload", work),
    forget: () =>
      exclusively(async () => {
        await done(indexedDB.deleteDatabase(name));
        mark(() => localStorage.removeItem(kept));
      }),
    persist: async () => (await navigator.storage?.persist?.()) ?? false,
  };
};
