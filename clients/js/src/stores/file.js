/** A store in a file, for Node: written beside it and renamed, under a lock file that one process holds. */

import { mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { StoreError, oneByOne } from "./memory.js";

const PATIENCE = 20_000;
const PAUSE = 20;

/** @param {string} path @param {string} [flag] */
const writer = (path, flag = "w") => open(path, flag, 0o600);

/** Whether the process that holds a lock still runs. @param {string} lock */
const isHeld = async (lock) => {
  const holder = Number(await readFile(lock, "utf8").catch(() => ""));
  if (!holder) return true; // it is being written, or already gone
  try {
    process.kill(holder, 0);
    return true;
  } catch {
    return false;
  }
};

/** @param {string} lock */
const acquire = async (lock) => {
  for (const end = Date.now() + PATIENCE; ; ) {
    try {
      const file = await writer(lock, "wx");
      await file.writeFile(String(process.pid));
      await file.close();
      return;
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== "EEXIST") throw error;
    }
    if (!(await isHeld(lock))) await rm(lock, { force: true });
    else if (Date.now() > end) throw new StoreError("busy", `${lock} is held by another process`);
    else await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
};

/**
 * @param {string} path
 * @returns {import("./memory.js").Store}
 */
export const fileStore = (path) => {
  const lock = `${path}.lock`;
  const inThisProcess = oneByOne();
  /** @type {(work: () => Promise<any>) => Promise<any>} */
  const exclusively = (work) =>
    inThisProcess(async () => {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await acquire(lock);
      try {
        return await work();
      } finally {
        await rm(lock, { force: true });
      }
    });

  const load = async () => {
    const mode = await stat(path).then((found) => found.mode & 0o077, () => null);
    if (mode === null) return null;
    if (mode && process.platform !== "win32") throw new StoreError("blocked", `${path} can be opened by others; set its mode to 0600`);
    try {
      return JSON.parse(await readFile(path, "utf8"));
    } catch {
      throw new StoreError("damaged", `${path} is not a state: restore or delete it`);
    }
  };

  return {
    transaction: (create, work) =>
      exclusively(async () => {
        const state = (await load()) ?? create(false);
        const result = await work(state);
        state.changes++;
        const fresh = await writer(`${path}.new`);
        await fresh.writeFile(JSON.stringify(state));
        await fresh.sync();
        await fresh.close();
        await rename(`${path}.new`, path);
        return result;
      }),
    forget: () => exclusively(() => rm(path, { force: true })),
  };
};
