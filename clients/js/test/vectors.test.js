import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parseRows } from "../src/conformance.js";
import { askDifferences, clientDifferences, queryDifferences, versionDifferences, wireDifferences } from "./check_vectors.js";

/** @param {string} name */
const vectors = (name) => parseRows(readFileSync(new URL(`../../../tests/vectors/${name}-v1.json`, import.meta.url), "utf8"));

for (const [name, least] of /** @type {[string, number][]} */ ([["client", 480], ["client-ask", 47], ["client-ports", 530]])) {
  test(`whole devices do what ${name}-v1.json says, byte for byte`, async () => {
    const { steps, found } = await clientDifferences(vectors(name));
    assert.deepEqual(found, []);
    assert.ok(steps >= least);
  });
}

test("queries without SQL are read and refused as query-ask-v1.json says", async () => {
  assert.deepEqual(await askDifferences(vectors("query-ask")), []);
});

test("queries have the bytes, digests and refusals of query-v1.json", async () => {
  assert.deepEqual(await queryDifferences(vectors("query")), []);
});

test("versions are accepted and refused as version-v1.json says", async () => {
  assert.deepEqual(await versionDifferences(vectors("version")), []);
});

test("messages and shares are those of wire-v1.json", () => {
  assert.deepEqual(wireDifferences(vectors("wire")), []);
});
