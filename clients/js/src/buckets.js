/**
 * Buckets: what an analyst can distinguish. Ranges, exact values and patterns per column; columns
 * combine as a product, of which the first is the most significant.
 */

import { TEXTS } from "./asking.js";
import { above } from "./bytes.js";
import { F64, decimal } from "./canonical.js";
import { any, different, flag, list, one, refuse, shape, text } from "./checks.js";
import { overlap, pattern } from "./patterns.js";

/** @typedef {import("./canonical.js").Tree} Tree */
/** @typedef {string | number | bigint | boolean | null | undefined} Value */

const MOST_BUCKETS = 1 << 16;
const MOST_COMPARISONS = 1 << 18;
const LONGEST_LABELS = 1 << 24;
const NUMBER = "-?\\d+(?:\\.\\d+)?(?:e[+-]\\d+)?|-?inf";
const RANGE = new RegExp(`^([[(])(${NUMBER}),(${NUMBER})([\\])])$`);

/** Numbers between two bounds. Integers of any size are compared exactly: JavaScript compares big integers so. */
class Range {
  /** @param {number} low @param {number} high @param {boolean} lowClosed @param {boolean} highClosed */
  constructor(low, high, lowClosed, highClosed) {
    this.low = low;
    this.high = high;
    this.lowClosed = lowClosed;
    this.highClosed = highClosed;
    this.first = lowClosed ? low : above(low);
    this.last = highClosed ? high : -above(-high);
  }

  /** @type {import("./checks.js").Check<Range>} */
  static read(bucket, name) {
    if (bucket instanceof F64 && !Object.is(bucket.value, -0)) {
      return new Range(bucket.value, bucket.value, true, true);
    }
    const found = RANGE.exec(String(bucket)) ?? refuse(name);
    const [low, high] = [found[2], found[3]].map((part) => Number(part.replace("inf", "Infinity")));
    const range = new Range(low, high, found[1] === "[", found[4] === "]");
    // It contains a number, is open at an infinite end, and its bounds are in their shortest form.
    const closed = (Math.abs(low) === Infinity && range.lowClosed) || (Math.abs(high) === Infinity && range.highClosed);
    return closed || range.first > range.last || low === high || range.label !== bucket ? refuse(name) : range;
  }

  get label() {
    if (this.low === this.high) return decimal(this.low);
    return `${this.lowClosed ? "[" : "("}${decimal(this.low)},${decimal(this.high)}${this.highClosed ? "]" : ")"}`;
  }

  /** @param {Value} value */
  holds(value) {
    if (typeof value !== "number" && typeof value !== "bigint") return false;
    return (
      (this.lowClosed ? value >= this.low : value > this.low) && (this.highClosed ? value <= this.high : value < this.high)
    );
  }
}

const words = text(1000, { empty: true });

/** An exact text, or all texts that match a pattern: always the whole text. */
class Text {
  /** @param {Tree} bucket @param {string} name */
  constructor(bucket, name) {
    if (typeof bucket === "string") {
      this.exact = this.label = words(bucket, name);
      return;
    }
    const [[kind, written], ...more] = Object.entries(shape({}, { glob: words, regex: words })(bucket, name));
    if (more.length) refuse(name);
    this.pattern = pattern(/** @type {"glob" | "regex"} */ (kind), written);
    this.label = `${kind}:${written}`;
  }

  /** @param {Value} value */
  holds(value) {
    if (typeof value !== "string") return false;
    return this.pattern ? this.pattern.matches(value) : value === this.exact;
  }
}

const COLUMN = shape(
  { name: text(200), kind: one("number", "text"), buckets: list(any, 1, MOST_BUCKETS), other: flag },
  { overlapping: one(true), ...TEXTS },
);

/** The buckets of one column of the answer. */
export class Column {
  /** @param {Tree} tree @param {string} at */
  constructor(tree, at) {
    const { name, kind, buckets, other, overlapping = false, question, labels } = COLUMN(tree, at);
    this.name = name;
    this.other = other;
    this.overlapping = overlapping;
    this.question = question;
    this.labels = labels;
    /** @type {(Range | Text)[]} */
    this.buckets = list((bucket, place) => (kind === "number" ? Range.read(bucket, place) : new Text(bucket, place)))(buckets, `${at}.buckets`);
    this.size = this.buckets.length + Number(other);
    this.names = this.buckets.map((bucket) => bucket.label).concat(other ? ["other"] : []);
    this.positions = this.patterns.reduce((n, pattern) => n + pattern.ranges.length, 0);
    if (!overlapping) this.refuseOverlaps(at);
  }

  get patterns() {
    return this.buckets.flatMap((bucket) => (bucket instanceof Text && bucket.pattern ? [bucket.pattern] : []));
  }

  /** The values that a person can choose; null for a bucket that is not a single one. */
  get choices() {
    return this.buckets.map((bucket) => (bucket instanceof Text ? bucket.exact ?? null : bucket.low === bucket.high ? bucket.low : null));
  }

  /** @param {string} at */
  refuseOverlaps(at) {
    const ranges = this.buckets.filter((bucket) => bucket instanceof Range);
    ranges.forEach((range, i) => {
      if (i && range.first <= ranges[i - 1].last) refuse(at);
    });
    const exact = this.buckets.flatMap((bucket) => (bucket instanceof Text && bucket.exact !== undefined ? [bucket.exact] : []));
    const patterns = this.patterns;
    if (patterns.length * this.buckets.length > MOST_COMPARISONS) refuse(at);
    different(at, exact);
    const both = exact.some((each) => patterns.some((pattern) => pattern.matches(each)));
    if (both || overlap(patterns)) refuse(at);
  }

  /** All buckets that a value is in, ascending; that of `other`, or none, if it is in no other. @param {Value} value */
  indices(value) {
    const number = typeof value === "boolean" ? Number(value) : value;
    const found = [];
    for (let i = 0; i < this.buckets.length; i++) {
      if (this.buckets[i].holds(number)) {
        found.push(i);
        if (!this.overlapping) return found;
      }
    }
    return found.length || !this.other ? found : [this.buckets.length];
  }
}

/** All possible answers: the product of the columns' buckets. */
export class Buckets {
  /** @param {Column[]} columns */
  constructor(columns) {
    this.columns = columns;
    this.size = columns.reduce((n, column) => n * column.size, 1);
    this.complete = columns.every((column) => column.other);
    this.positions = columns.reduce((n, column) => n + column.positions, 0);
    different("columns", columns.map((column) => column.name));
    const characters = columns.reduce((sum, { size, names, name }) => {
      const each = names.reduce((n, label) => n + Array.from(label + name).length + 3, 0);
      return sum + (this.size / size) * each;
    }, 0);
    if (this.size < 2 || this.size > MOST_BUCKETS || characters > LONGEST_LABELS) refuse("columns");
    different("columns", this.labels);
  }

  /** One text per bucket, in the order of their numbers. */
  get labels() {
    if (this.columns.length === 1) return this.columns[0].names;
    return this.columns.reduce(
      (/** @type {string[]} */ found, { name, names }, i) =>
        found.flatMap((start) => names.map((label) => `${start}${i ? ", " : ""}${name}=${label}`)),
      [""],
    );
  }

  /** All buckets of a row, ascending. @param {Value[]} row */
  indices(row) {
    if (row.length !== this.columns.length) return [];
    let found = [0];
    this.columns.forEach((column, i) => {
      const places = column.indices(row[i]);
      found = found.flatMap((total) => places.map((place) => total * column.size + place));
    });
    return found;
  }

  /** The bucket of a row, the first if there are several; -1 if it is in none. @param {Value[]} row */
  index(row) {
    return this.indices(row)[0] ?? -1;
  }
}
