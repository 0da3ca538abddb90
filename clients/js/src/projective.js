/**
 * The points of a projective space over a prime field of q elements, as docs/wire.md numbers them: of
 * the vectors on a line, the one whose leading coordinate is 1. Coordinates count from the last one.
 */

/** How many points lead at a place below `r`. @param {number} q @param {number} r */
export const points = (q, r) => (q ** r - 1) / (q - 1);

/**
 * The number of a point y with x . y = `product`, x being point number v: `others` are the coordinates
 * of y besides the one where x leads, which is solved for. No branch depends on v.
 * @param {number} v @param {number} product @param {number} others @param {number} q @param {number} t coordinates
 */
export const pointWith = (v, product, others, q, t) => {
  const vector = (/** @type {number} */ code) => Array.from({ length: t }, (_, place) => Math.floor(code / q ** place) % q);
  let lead = 0;
  for (let r = 1; r < t; r++) lead += Number(v >= points(q, r));
  const x = vector(v - points(q, lead) + q ** lead);
  const y = vector(others);
  y.splice(lead, 0, 0);
  y[lead] = x.reduce((sum, each, place) => sum + (q - each) * y[place], product) % q;
  const top = y.reduce((found, each, place) => found + (place - found) * Number(each > 0), 0);
  let scale = 0;
  for (let each = 1; each < q; each++) scale += each * Number((each * y[top]) % q === 1);
  return y.reduce((n, each, place) => n + ((each * scale) % q) * q ** place, points(q, top) - q ** top);
};
