/** Runs all vectors on the client whose folder is given; prints the first difference and exits with 1 if there is one. */

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
/** @param {string} path */
const load = (path) => import(pathToFileURL(`${folder}/${path}`).href);

/** @param {unknown} found */
const caught = (found) => {
  process.stdout.write(`${found}\n`);
  process.exit(1);
};

try {
  const { parseRows } = await load("src/conformance.js");
  const { clientDifferences, queryDifferences, askDifferences, versionDifferences, wireDifferences } = await load("test/check_vectors.js");
  const vectors = (/** @type {string} */ name) =>
    parseRows(readFileSync(new URL(`../../../tests/vectors/${name}-v1.json`, import.meta.url), "utf8"));
  const stop = (/** @type {string[]} */ found) => found.length && caught(found[0]);
  stop(wireDifferences(vectors("wire")));
  stop(await queryDifferences(vectors("query")));
  stop(await versionDifferences(vectors("version")));
  stop(await askDifferences(vectors("query-ask")));
  for (const name of ["client-ask", "client-ports", "client"]) {
    const all = vectors(name);
    for (let at = 0; at < all.cases.length; at += 20) {
      stop((await clientDifferences({ ...all, cases: all.cases.slice(at, at + 20) })).found);
    }
  }
} catch (error) {
  caught(error); // a client that does not even run is caught, too
}
