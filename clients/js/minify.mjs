#!/usr/bin/env node
/**
 * The client as one minified file, which is not committed: `node clients/js/minify.mjs OUTPUT [ENTRY]`.
 * ENTRY is another module to bundle the same way: the tests run their own files as bundles, so that what
 * is shipped is what was tried. DENIABLE_NODE names the folder into which `.ci/node` installed esbuild and terser.
 */

import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const folder = process.env.DENIABLE_NODE;
const [output, entry = fileURLToPath(new URL("src/index.js", import.meta.url))] = process.argv.slice(2);
if (!folder || !output) {
  console.error("usage: DENIABLE_NODE=FOLDER node minify.mjs OUTPUT [ENTRY]");
  process.exit(2);
}
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const esbuild = require("esbuild");
const { minify } = require("terser");

// Names that only the client's own modules use: not stored, sent, signed, set by an app or shown to one.
const INTERNAL = `
  low high lowClosed highClosed refuseOverlaps positions complete indices holds follow ranges exact names
  ofDouble exceeds ceiling nearest minus over plus double
  less coin below pick subset more block
  unary honest lifetime permanent replay draw loss
  mostRows rowCost readable records epochOf endOf channelTag queryTag sizeClass header tree
  readMechanism checkAnswers checkBudget checkEnvelope checkDelegate trusted lists keeps unknownToken retryAfter final early settings rank word patterns matches
  facts change empty lines receipt rowsOf unsaved isOn walk answerEach tokenOf sourceOf
`.trim().split(/\s+/);

const options = { entryPoints: [entry], bundle: true, format: "esm", target: "es2022", minifySyntax: true, write: false, external: ["node:*"] };
const [bundled] = (await esbuild.build(options)).outputFiles;
// First all is shortened but names, then names: those that are alike then come out alike, which gzip likes.
const compress = { passes: 3, inline: 1, pure_getters: true, unsafe: true, lhs_constants: false };
const settings = /** @type {const} */ ({ module: true, ecma: 2022 });
const compressed = await minify(bundled.text, { ...settings, compress, mangle: false });
const { code } = await minify(compressed.code, {
  ...settings,
  compress,
  mangle: { properties: { regex: new RegExp(`^(${INTERNAL.join("|")})$`), keep_quoted: "strict", builtins: true } },
});
writeFileSync(output, code);
const hash = createHash("sha384").update(code).digest("base64");
console.log(`${output}: ${code.length} bytes, ${gzipSync(code, { level: 9 }).length} gzipped, sha384-${hash}`);
