/**
 * The database that an analyst's SQL runs on: a copy in memory of what was granted, and nothing else.
 *
 * Rows are sorted by their own cells, so that their order says nothing. The authorizer allows SELECT, granted
 * columns and a list of functions; limits bound what a statement and a cell can grow to; the progress handler
 * ends what passes the deadline. The worker around it is ended from outside where that does not help.
 */

import { CALENDAR, readTime } from "./calendar.js";
import { DisallowedSql, FUNCTIONS, LIMITS, PARAMETERS, checkText, explain, fold, quoted, skipBlanks } from "./rules.js";

/** @typedef {import("../buckets.js").Value} Value */
/** @typedef {"INTEGER" | "REAL" | "TEXT"} Kind */
/** Tables, each with its columns, each with its kind; both in the order of their names. @typedef {[table: string, columns: [name: string, kind: Kind][]][]} Shape */
/** SQLite as its package gives it. @typedef {any} Sqlite */

const PROGRESS_EVERY = 400; // instructions of SQLite's machine
const CELL_BYTES = 64; // what a cell of a result costs besides its text
const SMALL_COPY = 4 << 20;
const COPY_ROOM = 512 << 20; // bytes in which a copy is made, for everybody
const EMPTY_BYTES = 1 << 18;
const PAGE_BYTES = 320; // of a page, besides its own size
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export class GrantedCopy {
  /** @param {Sqlite} sqlite @param {Shape} shape */
  constructor(sqlite, shape) {
    this.sqlite = sqlite;
    this.shape = shape;
    /** @type {Map<string, Set<string>>} */
    this.granted = new Map(shape.map(([table, columns]) => [fold(table), new Set(["", ...columns.map(([name]) => fold(name))])]));
    /** @type {DisallowedSql | null} */
    this.refused = null;
    this.ends = Infinity;
    this.db = this.opened();
    this.clock = this.opened(); // an empty database that does the arithmetic of dates
    for (const pragma of [`hard_heap_limit=${COPY_ROOM}`, "trusted_schema=0", "temp_store=MEMORY", "journal_mode=OFF"]) this.run(`PRAGMA ${pragma}`);
    this.run("ATTACH ':memory:' AS unsorted");
    this.run("PRAGMA unsorted.journal_mode=OFF");
    for (const [table, columns] of shape) {
      const fields = columns.map(([name, kind]) => `${quoted(name)} ${kind}`).join(", ");
      for (const schema of ["main", "unsorted"]) this.run(`CREATE TABLE ${schema}.${quoted(table)} (${fields})`);
    }
    this.run("BEGIN");
  }

  opened() {
    const { capi, wasm } = this.sqlite;
    const stack = wasm.pstack.pointer;
    try {
      const place = wasm.pstack.alloc(8);
      if (capi.sqlite3_open_v2(":memory:", place, capi.SQLITE_OPEN_READWRITE | capi.SQLITE_OPEN_CREATE | capi.SQLITE_OPEN_MEMORY, 0)) throw new Error("no memory");
      return wasm.peekPtr(place);
    } finally {
      wasm.pstack.restore(stack);
    }
  }

  /** A compiled statement. @param {number} db @param {string} sql */
  prepare(db, sql) {
    const { capi, wasm } = this.sqlite;
    const scope = wasm.scopedAllocPush();
    try {
      const [text, size] = wasm.scopedAllocCString(sql, true);
      const places = wasm.scopedAlloc(16);
      wasm.pokePtr(places, 0);
      const code = capi.sqlite3_prepare_v3(db, text, size, 0, places, places + 8);
      const statement = wasm.peekPtr(places);
      if (code || !statement) throw this.refused ?? explain(code & 0xff, capi.sqlite3_errmsg(db));
      const tail = UTF8.decode(wasm.heap8u().slice(wasm.peekPtr(places + 8), text + size));
      const rest = skipBlanks(tail, false);
      if (rest >= 0 && rest < tail.length) {
        capi.sqlite3_finalize(statement);
        throw new DisallowedSql("forbidden", "only one statement is allowed");
      }
      return statement;
    } finally {
      wasm.scopedAllocPop(scope);
    }
  }

  /** The rows of a statement of ours, or of a guarded query. @param {number} db @param {number} statement @param {(row: Value[]) => void} take */
  step(db, statement, take) {
    const { capi } = this.sqlite;
    try {
      for (;;) {
        const code = capi.sqlite3_step(statement);
        if (code === capi.SQLITE_DONE) return;
        if (code !== capi.SQLITE_ROW) throw this.refused ?? explain(code & 0xff, capi.sqlite3_errmsg(db));
        take(Array.from({ length: capi.sqlite3_column_count(statement) }, (_, i) => this.cell(statement, i)));
      }
    } finally {
      capi.sqlite3_finalize(statement);
    }
  }

  /** @param {string} sql @returns {Value[][]} */
  run(sql) {
    /** @type {Value[][]} */
    const rows = [];
    this.step(this.db, this.prepare(this.db, sql), (row) => rows.push(row));
    return rows;
  }

  /** @param {number} statement @param {number} i @returns {Value} */
  cell(statement, i) {
    const { capi, wasm } = this.sqlite;
    switch (capi.sqlite3_column_type(statement, i)) {
      case capi.SQLITE_NULL:
        return null;
      case capi.SQLITE_INTEGER: {
        const found = BigInt(capi.sqlite3_column_int64(statement, i));
        return Number.isSafeInteger(Number(found)) ? Number(found) : found;
      }
      case capi.SQLITE_FLOAT:
        return capi.sqlite3_column_double(statement, i);
      case capi.SQLITE_TEXT: {
        const start = capi.sqlite3_column_blob(statement, i);
        return UTF8.decode(wasm.heap8u().slice(start, start + capi.sqlite3_column_bytes(statement, i)));
      }
    }
    throw new DisallowedSql("cell", "the query returns a blob; only numbers, text and NULL can be answers");
  }

  /** @param {number} statement @param {number} i @param {Value | undefined} value @param {Kind} kind */
  bind(statement, i, value, kind) {
    const { capi, wasm } = this.sqlite;
    const given = typeof value === "boolean" ? Number(value) : value ?? null;
    let code;
    if (given === null) code = capi.sqlite3_bind_null(statement, i);
    else if (typeof given === "string") {
      const bytes = new TextEncoder().encode(given);
      const place = wasm.alloc(bytes.length + 1);
      wasm.heap8u().set(bytes, place);
      code = capi.sqlite3_bind_text(statement, i, place, bytes.length, capi.SQLITE_TRANSIENT);
      wasm.dealloc(place);
    } else if (typeof given === "bigint" || (Number.isSafeInteger(given) && kind !== "REAL")) code = capi.sqlite3_bind_int64(statement, i, BigInt(given));
    else code = capi.sqlite3_bind_double(statement, i, given);
    if (code) throw explain(code & 0xff, "");
  }

  /** Put rows into a table, named by its place in the shape. @param {number} table @param {Value[][]} rows */
  add(table, rows) {
    const { capi } = this.sqlite;
    const [name, columns] = this.shape[table];
    const statement = this.prepare(this.db, `INSERT INTO unsorted.${quoted(name)} VALUES (${columns.map(() => "?").join(", ")})`);
    try {
      for (const row of rows) {
        columns.forEach(([, kind], i) => this.bind(statement, i + 1, row[i], kind));
        const code = capi.sqlite3_step(statement);
        if (code !== capi.SQLITE_DONE) throw explain(code & 0xff, "");
        capi.sqlite3_reset(statement);
      }
    } finally {
      capi.sqlite3_finalize(statement);
    }
  }

  /** Sort the rows, and allow only guarded queries from now on. @param {number} maxMemory bytes beside the copy */
  seal(maxMemory) {
    const { capi, wasm } = this.sqlite;
    for (const [table, columns] of this.shape) {
      const names = columns.map(([name]) => quoted(name));
      const cells = names.map((name) => `iif(typeof(${name}) = 'real', ${name} + 0.0, ${name})`).join(", ");
      const order = names.map((name) => `${name}, typeof(${name})`).join(", ");
      this.run(`INSERT INTO main.${quoted(table)} SELECT ${cells} FROM unsorted.${quoted(table)} ORDER BY ${order}`);
    }
    for (const sql of ["COMMIT", "DETACH unsorted"]) this.run(sql);
    const [pages, size] = ["page_count", "page_size"].map((name) => Number(this.run(`PRAGMA ${name}`)[0][0]));
    const limit = Math.max(SMALL_COPY, EMPTY_BYTES + pages * (size + PAGE_BYTES)) + maxMemory;
    const [[held]] = this.run(`PRAGMA hard_heap_limit=${limit}`);
    if (held !== limit) throw new Error("SQLite's memory cannot be limited");
    this.run("PRAGMA query_only=1");
    capi.sqlite3_db_config(this.db, capi.SQLITE_DBCONFIG_DEFENSIVE, 1, 0);
    for (const name of CALENDAR) {
      const function_ = wasm.installFunction("v(pip)", this.calendar(name));
      const flags = capi.SQLITE_UTF8 | capi.SQLITE_DETERMINISTIC;
      if (capi.sqlite3_create_function_v2(this.db, name, -1, flags, 0, function_, 0, 0, 0)) throw new Error(`${name} cannot be replaced`);
    }
    for (const [name, value] of Object.entries(LIMITS)) capi.sqlite3_limit(this.db, capi[`SQLITE_LIMIT_${name}`], value);
    capi.sqlite3_progress_handler(this.db, PROGRESS_EVERY, () => Number(this.late()), 0);
    const authorize = (/** @type {any} */ _, /** @type {number} */ action, /** @type {string | null} */ first, /** @type {string | null} */ second) => this.authorize(action, first, second);
    if (capi.sqlite3_set_authorizer(this.db, authorize, 0)) throw new Error("there is no authorizer");
  }

  close() {
    for (const db of [this.db, this.clock]) this.sqlite.capi.sqlite3_close_v2(db);
  }

  late() {
    return this.refused !== null || performance.now() > this.ends;
  }

  /** @param {string} reason @param {string} detail */
  refuse(reason, detail) {
    this.refused ??= new DisallowedSql(reason, detail);
    return this.refused;
  }

  /** @param {number} action @param {string | null} first @param {string | null} second */
  authorize(action, first, second) {
    const { capi } = this.sqlite;
    if (action === capi.SQLITE_SELECT) return capi.SQLITE_OK;
    if (action === capi.SQLITE_READ) {
      const [table, column] = [fold(first ?? ""), fold(second ?? "")];
      // "" is how SQLite names the column when none is read, as by count(*), and asks about common table expressions.
      if ((this.granted.get(table)?.has(column) ?? column === "") && !/^(sqlite|pragma)_/.test(table)) return capi.SQLITE_OK;
      this.refuse("not shared", `${second ? `${first}.${second}` : first} is not shared`);
    } else if (action === capi.SQLITE_FUNCTION) {
      const name = fold(second ?? "");
      if (FUNCTIONS.has(name) || CALENDAR.includes(name)) return capi.SQLITE_OK;
      this.refuse("forbidden", `the function ${second} is not on the list of allowed functions`);
    } else if (action === capi.SQLITE_RECURSIVE) this.refuse("forbidden", "recursive queries are not allowed");
    else this.refuse("forbidden", "only SELECT on shared tables is allowed");
    return capi.SQLITE_DENY;
  }

  /** A date function that cannot see the clock. @param {string} name */
  calendar(name) {
    const { capi, wasm } = this.sqlite;
    return (/** @type {number} */ context, /** @type {number} */ n, /** @type {number} */ places) => {
      const values = Array.from({ length: n }, (_, i) => wasm.peekPtr(places + 4 * i));
      const given = values.map((value) => capi.sqlite3_value_to_js(value));
      const verdict = readTime(name, given);
      if (verdict === "forbidden") {
        const refused = this.refuse("forbidden", `${name}() must not use the device's clock or time zone`);
        return capi.sqlite3_result_error(context, refused.message, -1);
      }
      if (verdict === "null") return capi.sqlite3_result_null(context);
      const statement = this.prepare(this.clock, `SELECT ${name}(${given.map(() => "?").join(", ")})`);
      given.forEach((each, i) => this.bind(statement, i + 1, each, capi.sqlite3_value_type(values[i]) === capi.SQLITE_FLOAT ? "REAL" : "INTEGER"));
      /** @type {Value} */
      let found = null;
      let real = false;
      try {
        if (capi.sqlite3_step(statement) === capi.SQLITE_ROW) {
          real = capi.sqlite3_column_type(statement, 0) === capi.SQLITE_FLOAT;
          found = this.cell(statement, 0);
        }
      } finally {
        capi.sqlite3_finalize(statement);
      }
      if (typeof found === "string") capi.sqlite3_result_text(context, found, -1, capi.SQLITE_TRANSIENT);
      else if (found === null) capi.sqlite3_result_null(context);
      else if (real) capi.sqlite3_result_double(context, Number(found));
      else capi.sqlite3_result_int64(context, BigInt(Number(found)));
    };
  }

  /**
   * A compiled SELECT whose parameters stand for the start and the end of an epoch.
   * @param {string} sql @param {number[]} epoch
   */
  prepareFor(sql, epoch) {
    const { capi } = this.sqlite;
    checkText(sql);
    const statement = this.prepare(this.db, sql);
    for (let i = 1; i <= capi.sqlite3_bind_parameter_count(statement); i++) {
      const name = capi.sqlite3_bind_parameter_name(statement, i)?.slice(1);
      const place = PARAMETERS.indexOf(name);
      if (place < 0) {
        capi.sqlite3_finalize(statement);
        throw new DisallowedSql("forbidden", "the only parameters are :epoch_start and :epoch_end");
      }
      this.bind(statement, i, epoch[place], "INTEGER");
    }
    return statement;
  }

  /** How many columns a SELECT returns, if that is known before it runs. It is not run. @param {string} sql @returns {number | null} */
  compile(sql) {
    this.refused = null;
    /** @type {number | null} */
    let n = null;
    // Some builds of SQLite explain functions that they do not have.
    this.sqlite.capi.sqlite3_finalize(this.prepareFor(sql, [0, 0]));
    this.step(this.db, this.prepare(this.db, `EXPLAIN ${sql}`), (row) => {
      if (row[1] === "ResultRow") n ??= Number(row[3]);
    });
    return n;
  }

  /** The rows of one SELECT. @param {string} sql @param {number[]} epoch its start and end @param {{maxRows: number, maxMemory: number, deadline: number}} limits milliseconds @returns {Value[][]} */
  query(sql, epoch, { maxRows, maxMemory, deadline }) {
    this.refused = null;
    this.ends = performance.now() + deadline;
    /** @type {Value[][]} */
    const rows = [];
    let size = 0;
    this.step(this.db, this.prepareFor(sql, epoch), (row) => {
      if (rows.length === maxRows) throw this.refuse("rows", "the query returns too many rows");
      for (const cell of row) size += CELL_BYTES + (typeof cell === "string" ? 3 * cell.length : 0);
      if (size > maxMemory) throw this.refuse("memory", "the query needs too much memory");
      rows.push(row);
    });
    if (this.late()) throw this.refuse("deadline", "the query ran too long");
    return rows;
  }
}
