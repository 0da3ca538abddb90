/** What an analyst's SQL may say: the rules of the Python client's sandbox. No protection rests on what a text means. */

/** Why SQL is refused: `reason` is a word of the rules, the message has no data in it. */
export class DisallowedSql extends Error {
  /** @param {string} reason @param {string} detail */
  constructor(reason, detail) {
    super(detail);
    this.reason = reason;
  }
}

export const LARGEST_CELL = 1 << 16; // bytes of a text that a query may read, build or return
const LONGEST_SQL = 8192; // bytes

/** Deterministic functions. Absent: all that draw, read the clock, the connection or the build, or make blobs. */
export const FUNCTIONS = new Set(
  `abs avg ceil ceiling coalesce count dense_rank exp first_value floor glob ifnull iif
  instr lag last_value lead length like ln lower ltrim max min mod nullif pow power rank
  round row_number rtrim sign sqrt substr substring sum total trim trunc typeof upper`.split(/\s+/),
);

/** SQLite's limits for one connection, by name. @type {{[name: string]: number}} */
export const LIMITS = {
  LENGTH: LARGEST_CELL,
  SQL_LENGTH: LONGEST_SQL + "EXPLAIN ".length,
  COLUMN: 64,
  EXPR_DEPTH: 64,
  COMPOUND_SELECT: 8,
  VDBE_OP: 25_000,
  FUNCTION_ARG: 16,
  ATTACHED: 0,
  LIKE_PATTERN_LENGTH: 256,
  VARIABLE_NUMBER: 2, // :epoch_start and :epoch_end
  TRIGGER_DEPTH: 1,
  WORKER_THREADS: 0,
};

export const PARAMETERS = ["epoch_start", "epoch_end"];

/** A name as SQLite compares names: ASCII letters without case. @param {string} name */
export const fold = (name) => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/** @param {string} name */
export const quoted = (name) => `"${name.replaceAll('"', '""')}"`;

/** The place after blanks and comments; -1 if a comment does not end. @param {string} sql @param {boolean} byteOrderMark whether it is a blank */
export const skipBlanks = (sql, byteOrderMark) => {
  for (let at = 0; ; ) {
    if (" \t\n\f\r".includes(sql[at] ?? "x") || (byteOrderMark && sql[at] === "\ufeff")) at++;
    else if (sql.startsWith("--", at) || sql.startsWith("/*", at)) {
      const line = sql[at] === "-";
      const end = sql.indexOf(line ? "\n" : "*/", at + 2);
      if (end < 0) return -1;
      at = end + (line ? 1 : 2);
    } else return at;
  }
};

/** Refuse anything but the text of one SELECT of limited length. @param {string} sql */
export const checkText = (sql) => {
  if (sql.includes("\0")) throw new DisallowedSql("bad sql", "the query contains a NUL character");
  const size = new TextEncoder().encode(sql).length;
  if (size > LONGEST_SQL) throw new DisallowedSql("complex", `the query has ${size} bytes; at most ${LONGEST_SQL} are allowed`);
  const at = skipBlanks(sql, true);
  if (at < 0 || !/^(?:select|with)(?![\p{L}\p{N}_$])/iu.test(sql.slice(at))) {
    throw new DisallowedSql("forbidden", "a query must begin with SELECT or WITH");
  }
};

const LIMIT_WORDS = ["too many", "too large", "too big", "too complex", "at most", "stack overflow", "too long", "variable number"];

/** Why SQLite itself refused to compile. Its message is about the text of the query. @param {number} code @param {string} message */
export const explain = (code, message) => {
  if (code === 7) return new DisallowedSql("memory", "the query needs too much memory");
  if (LIMIT_WORDS.some((words) => message.includes(words))) return new DisallowedSql("complex", `the query is too large: ${message}`);
  if (/^no such (table|column)/.test(message)) {
    const name = message.slice(message.indexOf(": ") + 2).split(" - ")[0];
    return new DisallowedSql("not shared", `${name} is not shared`);
  }
  return new DisallowedSql("bad sql", `SQLite cannot run the query: ${message}`);
};
