import assert from "node:assert/strict";
import { generateKeyPairSync, sign } from "node:crypto";
import { test } from "node:test";
import { keyedHash } from "../src/blake2b.js";
import { hex, unhex, utf8 } from "../src/bytes.js";
import { verify, verifyPlainly } from "../src/ed25519.js";
import { Fraction, exp, loss } from "../src/fraction.js";
import { pattern } from "../src/patterns.js";

test("BLAKE2b with a key gives RFC 7693's values, whatever the lengths", () => {
  const key = Uint8Array.from({ length: 32 }, (_, i) => i);
  // hashlib.blake2b(bytes(n), digest_size=32, key=bytes(range(32))).hexdigest() of CPython
  const known = { 0: "4e51e7a913fc80137da52880fecca175bf81e117d5c68126dc2774033517ea0d" };
  assert.equal(hex(keyedHash(key, new Uint8Array(0))(new Uint8Array(0))), known[0]);
  for (const n of [1, 127, 128, 129, 255, 256, 300]) {
    const whole = hex(keyedHash(key, new Uint8Array(n))(new Uint8Array(0)));
    for (const at of [0, 1, 64, 127, 128, n].filter((each) => each <= n)) {
      assert.equal(hex(keyedHash(key, new Uint8Array(at))(new Uint8Array(n - at))), whole);
    }
  }
});

test("the fallback for Ed25519 agrees with the platform, on good and bad signatures", async () => {
  for (let i = 0; i < 8; i++) {
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    const key = new Uint8Array(publicKey.export({ type: "spki", format: "der" }).subarray(-32));
    const content = utf8(`message ${i}`);
    const good = new Uint8Array(sign(null, content, privateKey));
    const beyond = good.slice(); // S + L is the same number modulo L, and must be refused
    let carry = 0n;
    const order = 2n ** 252n + 27742317777372353535851937790883648493n;
    for (let at = 0; at < 32; at++) {
      const sum = BigInt(beyond[32 + at]) + ((order >> BigInt(8 * at)) & 255n) + carry;
      beyond[32 + at] = Number(sum & 255n);
      carry = sum >> 8n;
    }
    const flipped = good.map((byte, at) => (at === 7 * i ? byte ^ 1 : byte));
    for (const signature of [good, flipped, beyond, good.subarray(0, 63), new Uint8Array(64)]) {
      assert.equal(await verifyPlainly(key, signature, content), await verify(key, signature, content));
    }
    assert.equal(await verifyPlainly(key, good, content), true);
    assert.equal(await verifyPlainly(new Uint8Array(32).fill(255), good, content), false);
  }
});

test("e^x and ln are right far beyond doubles, and a loss is rounded up", () => {
  for (const x of [1e-9, 0.1, 1, 2.5, 39.9]) {
    const back = loss(exp(Fraction.ofDouble(x)));
    assert.ok(Math.abs(back - x) <= x * 2 ** -52, `${x} ${back}`);
    assert.ok(Math.abs(exp(Fraction.ofDouble(x)).double / Math.exp(x) - 1) < 1e-15);
  }
  assert.equal(loss(new Fraction(9n)), 2.1972245773362196);
});

test("patterns that make backtracking explode take linear time", () => {
  const start = process.cpuUsage();
  for (const text of ["(a+)+b", "(a|a)*b", "(a*)*b", "(a|aa)+b"]) {
    assert.equal(pattern("regex", text).matches("a".repeat(4096)), false);
    assert.equal(pattern("regex", text).matches(`${"a".repeat(4095)}b`), true);
  }
  assert.ok(process.cpuUsage(start).user < 5e6);
});

test("hexadecimal digits are read and written", () => {
  assert.equal(hex(unhex("00ffA1")), "00ffa1");
  assert.equal(unhex("").length, 0);
});
