#!/usr/bin/env node
/**
 * Plants mistakes into the client, one at a time, and lets the vectors look for them: what a port could
 * get wrong, they must notice. `node clients/js/mutation/run.js [--every N] [--only TEXT]`
 *
 * Exits with 1 if a mistake survives that is not listed as equivalent, or one that is listed is caught.
 */

import { spawn } from "node:child_process";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MUTANTS } from "./mutants.js";

const HERE = fileURLToPath(new URL("..", import.meta.url));
const PATIENCE = 120_000;
const AT_ONCE = 2;
/** @param {string} name */
const option = (name) => process.argv[process.argv.indexOf(name) + 1];
const every = process.argv.includes("--every") ? Number(option("--every")) : 1;
const only = process.argv.includes("--only") ? option("--only") : "";

/** What the vectors say about a mutant; empty if it survives. @param {import("./mutants.js").Mutant} mutant @returns {Promise<string>} */
const verdict = async ({ file, from, to }) => {
  const folder = await mkdtemp(join(tmpdir(), "deniable-mutant-"));
  try {
    for (const part of ["src", "test", "package.json"]) await cp(join(HERE, part), join(folder, part), { recursive: true });
    const path = join(folder, "src", file);
    const source = await readFile(path, "utf8");
    if (source.split(from).length !== 2) throw new Error(`${file} must contain once: ${from}`);
    await writeFile(path, source.replace(from, () => to));
    const child = spawn(process.execPath, [join(HERE, "mutation/run_vectors.js"), folder], { stdio: ["ignore", "pipe", "ignore"] });
    let said = "";
    child.stdout.on("data", (part) => (said += part));
    const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE);
    const code = await new Promise((resolve) => child.on("close", resolve));
    clearTimeout(timer);
    return code === 0 ? "" : said.trim().split("\n")[0] || "it did not finish";
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};

const chosen = MUTANTS.filter((mutant, i) => i % every === 0 && `${mutant.file} ${mutant.to}`.includes(only));
const queue = [...chosen];
let [caught, equivalent] = [0, 0];
/** @type {string[]} */
const wrong = [];

const work = async () => {
  for (let mutant = queue.shift(); mutant; mutant = queue.shift()) {
    const said = await verdict(mutant);
    const name = `${mutant.file}: ${mutant.from} -> ${mutant.to}`;
    if (said) caught++;
    else equivalent++;
    if (!said && !mutant.equivalent) wrong.push(`survived: ${name}`);
    if (said && mutant.equivalent) wrong.push(`listed as equivalent, but caught by ${said}: ${name}`);
  }
};
await Promise.all(Array.from({ length: AT_ONCE }, work));
for (const line of wrong) console.log(line);
console.log(`${chosen.length} mistakes: ${caught} caught, ${equivalent} survived, ${wrong.length} not as listed`);
process.exit(wrong.length ? 1 : 0);
