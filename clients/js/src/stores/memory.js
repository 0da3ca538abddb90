/** A store that forgets: for tests, and for apps that keep the state themselves. */

/** @typedef {import("../state.js").State} State */

/**
 * Where a device keeps its state. `transaction` is exclusive, in all tabs and processes: what `work`
 * does to the state is kept as a whole if it succeeds, and not at all if it fails.
 * @typedef {object} Store
 * @property {<T>(create: (lost: boolean) => State, work: (state: State) => T | Promise<T>) => Promise<T>} transaction
 *   `create` makes the first state; it is told whether there seems to have been one before
 * @property {<T>(work: () => Promise<T>) => Promise<T>} [alone] runs work that takes long while no other tab does the same
 * @property {() => Promise<void>} forget deletes everything
 * @property {() => Promise<boolean>} [persist] asks that the state not be evicted; whether that was granted
 */

/** What went wrong with a store; nothing was changed. */
export class StoreError extends Error {
  /** @param {"blocked" | "full" | "busy" | "damaged"} reason @param {string} detail */
  constructor(reason, detail) {
    super(detail);
    this.name = "StoreError";
    this.reason = reason;
  }
}

/** Lets one piece of work run after the other. */
export const oneByOne = () => {
  /** @type {Promise<unknown>} */
  let last = Promise.resolve();
  return (/** @type {() => Promise<any>} */ work) => {
    const mine = last.then(work);
    last = mine.catch(() => undefined);
    return mine;
  };
};

/** @returns {Store} */
export const memoryStore = () => {
  const exclusively = oneByOne();
  /** @type {string | null} */
  let kept = null;
  return {
    transaction: (create, work) =>
      exclusively(async () => {
        const state = kept === null ? create(false) : JSON.parse(kept);
        const result = await work(state);
        kept = JSON.stringify(state);
        return result;
      }),
    forget: () => exclusively(async () => void (kept = null)),
  };
};
