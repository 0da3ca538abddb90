/** The page's side of a worker: it is started, watched, and ended at a time that is known before. */

/**
 * @typedef {object} SqlWorker
 * @property {(message: any) => void} post
 * @property {(listener: (message: any) => void, failed: () => void) => void} listen
 * @property {() => void} end
 */

const THREADS = "node:worker_threads";
const HEAP = 64; // MiB for the worker's own objects, besides what a query may take
const isNode = () => typeof process === "object" && Boolean(process.versions?.node);

/** @param {number} maxMemory bytes @returns {Promise<SqlWorker>} */
const started = async (maxMemory) => {
  if (isNode()) {
    const { Worker: Thread } = await import(/* @vite-ignore */ /* webpackIgnore: true */ THREADS);
    const limits = { maxOldGenerationSizeMb: HEAP + 4 * Math.ceil(maxMemory / (1 << 20)), stackSizeMb: 4 };
    const options = { env: {}, argv: [], execArgv: [], stdin: false, stdout: true, stderr: true, resourceLimits: limits };
    const thread = new Thread(new URL("./node_worker.js", import.meta.url), options);
    thread.unref();
    return {
      post: (message) => thread.postMessage(message),
      listen: (listener, failed) => thread.removeAllListeners().on("message", listener).on("error", failed).on("exit", failed),
      end: () => thread.removeAllListeners().on("error", () => undefined).terminate(),
    };
  }
  const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  return {
    post: (message) => worker.postMessage(message),
    listen: (listener, failed) => {
      worker.onmessage = ({ data }) => listener(data);
      worker.onerror = worker.onmessageerror = failed;
    },
    end: () => worker.terminate(),
  };
};

/**
 * What a worker says last, or undefined if that takes longer than `milliseconds`, or it fails. `between` replies to what it says before.
 * @param {SqlWorker} worker @param {any} message @param {number} milliseconds @param {(said: any) => any} [between] undefined for the last
 * @returns {Promise<any>}
 */
export const exchange = (worker, message, milliseconds, between = () => undefined) =>
  new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), milliseconds);
    const done = (/** @type {any} */ said) => {
      clearTimeout(timer);
      resolve(said);
    };
    worker.listen((said) => {
      try {
        const reply = between(said);
        if (reply === undefined) done(said);
        else worker.post(reply);
      } catch {
        done(undefined); // the time of this answer is over
      }
    }, () => done(undefined));
    worker.post(message);
  });

/**
 * A worker that has loaded SQLite and given up everything else.
 * @param {string | null} sqlite @param {number} maxMemory @param {number} milliseconds
 */
export const confined = async (sqlite, maxMemory, milliseconds) => {
  const worker = await started(maxMemory);
  const said = await exchange(worker, { load: sqlite }, milliseconds);
  if (said?.ready) return worker;
  worker.end();
  throw new Error(`SQLite cannot be started${said?.why ? `: ${said.why}` : " in time"}`);
};
