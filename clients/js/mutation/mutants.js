/** Mistakes that a port could make, each a replacement in one file; `equivalent` says why one cannot be noticed. */

/** @typedef {{file: string, from: string, to: string, equivalent?: string}} Mutant */

/** @type {Mutant[]} */
export const MUTANTS = [
  {
    file: "words.js",
    from: "Number(this.word() < t)",
    to: "Number(this.word() <= t)",
  },
  {
    file: "words.js",
    from: "Number(this.word() < t)",
    to: "Number(this.word() >> 32n < t >> 32n)",
  },
  {
    file: "words.js",
    from: "Number(this.word() < t)",
    to: "Number(Number(this.word()) < Number(t))",
  },
  {
    file: "words.js",
    from: "Number(word >= t)",
    to: "Number(word > t)",
  },
  {
    file: "words.js",
    from: "(product & MASK) >= least",
    to: "(product & MASK) > least",
  },
  {
    file: "words.js",
    from: "(product & MASK) >= least",
    to: "true",
  },
  {
    file: "words.js",
    from: "return Number(product >> 64n);",
    to: "return Number((product >> 64n) % bound);",
    equivalent: "the quotient of a word and the bound is below the bound already",
  },
  {
    file: "words.js",
    from: "const product = this.word() * bound;",
    to: "const product = this.word() % bound << 64n;",
  },
  {
    file: "words.js",
    from: "reached + Number(word >= t)",
    to: "reached + Number(word < t)",
  },
  {
    file: "words.js",
    from: "Number(this.below(width - place) < left)",
    to: "Number(this.below(width) < left)",
  },
  {
    file: "words.js",
    from: "Number(this.below(width - place) < left)",
    to: "Number(this.below(width - place) <= left)",
  },
  {
    file: "words.js",
    from: "if (n - i > 1) {",
    to: "if (n - i > 0) {",
  },
  {
    file: "words.js",
    from: "const j = i + this.below(n - i);",
    to: "const j = this.below(n);",
  },
  {
    file: "words.js",
    from: "this.block.getBigUint64(this.at - 8, true)",
    to: "this.block.getBigUint64(this.at - 8, false)",
  },
  {
    file: "words.js",
    from: ".subarray(0, n - at), at);",
    to: ".reverse().subarray(0, n - at), at);",
  },
  {
    file: "fraction.js",
    from: "twice.d === 1n && up & 1n ? up - 1n : up",
    to: "up",
  },
  {
    file: "fraction.js",
    from: "twice.d === 1n && up & 1n ? up - 1n : up",
    to: "twice.d === 1n ? up - 1n : up",
  },
  {
    file: "fraction.js",
    from: "smaller(p.times(SCALE).ceiling, ONE - 1n)",
    to: "smaller(p.times(SCALE).floor, ONE - 1n)",
  },
  {
    file: "fraction.js",
    from: "larger(p.times(SCALE).floor, 1n)",
    to: "larger(p.times(SCALE).ceiling, 1n)",
  },
  {
    file: "fraction.js",
    from: "smaller(larger(p.times(SCALE).nearest, 1n), ONE - 1n)",
    to: "smaller(larger(p.times(SCALE).floor, 1n), ONE - 1n)",
  },
  {
    file: "fraction.js",
    from: "smaller(larger(p.times(SCALE).nearest, 1n), ONE - 1n)",
    to: "smaller(p.times(SCALE).nearest, ONE - 1n)",
  },
  {
    file: "fraction.js",
    from: "exact.exceeds(Fraction.ofDouble(double)) ? above(double) : double",
    to: "double",
  },
  {
    file: "fraction.js",
    from: "const exact = new Fraction(fixedLn(larger) * BigInt(times), UNIT);",
    to: "const exact = Fraction.ofDouble(Math.log(larger.double) * times);",
  },
  {
    file: "fraction.js",
    from: "new Fraction(fixedExp((x.n * UNIT) / x.d), UNIT)",
    to: "Fraction.ofDouble(Math.exp(x.double))",
  },
  {
    file: "fraction.js",
    from: "const text = String(given);",
    to: "const text = String(given); if (typeof given === \"number\") return Fraction.ofDouble(given);",
  },
  {
    file: "fraction.js",
    from: "const PLACES = 448n;",
    to: "const PLACES = 48n;",
  },
  {
    file: "fraction.js",
    from: "const PLACES = 448n;",
    to: "const PLACES = 320n;",
    equivalent: "96 decimals still decide every integer over 2^64 alike",
  },
  {
    file: "buckets.js",
    from: "this.lowClosed ? value >= this.low : value > this.low",
    to: "this.lowClosed ? Number(value) >= this.low : Number(value) > this.low",
  },
  {
    file: "buckets.js",
    from: "this.lowClosed ? value >= this.low : value > this.low",
    to: "value >= this.low",
  },
  {
    file: "buckets.js",
    from: "this.highClosed ? value <= this.high : value < this.high",
    to: "value < this.high",
  },
  {
    file: "buckets.js",
    from: "this.highClosed ? value <= this.high : value < this.high",
    to: "this.highClosed ? Number(value) <= this.high : Number(value) < this.high",
  },
  {
    file: "buckets.js",
    from: "return found.length || !this.other ? found : [this.buckets.length];",
    to: "return found;",
  },
  {
    file: "buckets.js",
    from: "places.map((place) => total * column.size + place)",
    to: "places.map((place) => total * column.buckets.length + place)",
  },
  {
    file: "buckets.js",
    from: "places.map((place) => total * column.size + place)",
    to: "places.map((place) => total + place * column.size)",
  },
  {
    file: "buckets.js",
    from: "if (!this.overlapping) return found;",
    to: "if (true) return found;",
  },
  {
    file: "buckets.js",
    from: "if (typeof value !== \"string\") return false;\n    return this.pattern",
    to: "value = String(value);\n    return this.pattern",
  },
  {
    file: "buckets.js",
    from: "typeof value !== \"number\" && typeof value !== \"bigint\"",
    to: "value === null || isNaN(Number(value))",
  },
  {
    file: "buckets.js",
    from: "range.first > range.last || low === high ||",
    to: "low === high ||",
  },
  {
    file: "buckets.js",
    from: "range.first > range.last || low === high ||",
    to: "range.first > range.last ||",
    equivalent: "a range of one number is written as that number, so its text differs",
  },
  {
    file: "buckets.js",
    from: "range.label !== bucket ?",
    to: "false ?",
  },
  {
    file: "buckets.js",
    from: "if (i && range.first <= ranges[i - 1].last)",
    to: "if (i && range.first < ranges[i - 1].last)",
  },
  {
    file: "buckets.js",
    from: "if (both || overlap(patterns))",
    to: "if (both)",
  },
  {
    file: "buckets.js",
    from: "if (both || overlap(patterns))",
    to: "if (overlap(patterns))",
  },
  {
    file: "buckets.js",
    from: "if (this.size < 2 || ",
    to: "if (",
  },
  {
    file: "buckets.js",
    from: "return closed || ",
    to: "return ",
  },
  {
    file: "buckets.js",
    from: "different(\"columns\", this.labels);",
    to: "",
  },
  { file: "canonical.js", from: "if (write(tree) !== text) throw new FormError();", to: "" },
  { file: "canonical.js", from: "!Number.isSafeInteger(value)", to: "false" },
  {
    file: "canonical.js",
    from: "!Number.isFinite(value)) throw",
    to: "false) throw",
    equivalent: "every double of a query has bounds, which infinity and NaN are outside of",
  },
  {
    file: "canonical.js",
    from: "/^[0-9a-f]{16}$/.test(digits)",
    to: "/^[0-9a-fA-F]{16}$/.test(digits)",
    equivalent: "the comparison with the canonical text refuses capitals as well",
  },
  {
    file: "canonical.js",
    from: "exponent >= -4 && exponent < 16",
    to: "exponent >= -4 && exponent < 21",
  },
  {
    file: "canonical.js",
    from: "exponent >= -4 && exponent < 16",
    to: "exponent >= -7 && exponent < 16",
  },
  {
    file: "canonical.js",
    from: "Number.isInteger(value) && Math.abs(value) < 2 ** 53",
    to: "Number.isInteger(value)",
  },
  {
    file: "patterns.js",
    from: "if (character === \".\") return one(negated(NEWLINE));",
    to: "if (character === \".\") return one(ANY);",
  },
  {
    file: "patterns.js",
    from: "repeat(one(ANY), 0, Infinity)",
    to: "repeat(one(negated(NEWLINE)), 0, Infinity)",
  },
  {
    file: "patterns.js",
    from: "one(character === \"?\" ? ANY : single(character))",
    to: "one(character === \"?\" ? negated(NEWLINE) : single(character))",
  },
  {
    file: "patterns.js",
    from: "const text = Array.from(source);",
    to: "const text = source.split(\"\");",
  },
  {
    file: "patterns.js",
    from: "const characters = Array.from(given);",
    to: "const characters = given.split(\"\");",
  },
  {
    file: "patterns.js",
    from: "if (characters.length > LONGEST_TEXT) return false;",
    to: "if (text.length > LONGEST_TEXT) return false;",
  },
  {
    file: "patterns.js",
    from: "if (characters.length > LONGEST_TEXT) return false;",
    to: "if (characters.length >= LONGEST_TEXT) return false;",
  },
  {
    file: "patterns.js",
    from: "const SPACE = [[9, 13], [32, 32]];",
    to: "const SPACE = [[9, 13], [32, 32], [160, 160]];",
  },
  {
    file: "patterns.js",
    from: "const SPACE = [[9, 13], [32, 32]];",
    to: "const SPACE = [[9, 10], [13, 13], [32, 32]];",
  },
  {
    file: "patterns.js",
    from: "const DIGIT = [[48, 57]];",
    to: "const DIGIT = [[48, 57], [0x661, 0x669]];",
  },
  {
    file: "patterns.js",
    from: "const WORD = [[48, 57], [65, 90], [95, 95], [97, 122]];",
    to: "const WORD = [[48, 57], [65, 90], [97, 122]];",
  },
  {
    file: "patterns.js",
    from: "character === \"\\\\\" && !glob ?",
    to: "character === \"\\\\\" ?",
  },
  {
    file: "patterns.js",
    from: "const most = found[3] ? Number(found[3]) : found[2] ? Infinity : least;",
    to: "const most = found[3] ? Number(found[3]) : Infinity;",
  },
  {
    file: "patterns.js",
    from: "[empty || copy >= least, first",
    to: "[empty, first",
  },
  {
    file: "patterns.js",
    from: "[empty || copy >= least, first",
    to: "[empty || copy > least, first",
  },
  {
    file: "patterns.js",
    from: "return (state & end) !== 0n;",
    to: "return state !== 0n;",
  },
  {
    file: "patterns.js",
    from: "if (most === Infinity) link(end[2], end[1]);",
    to: "",
  },
  {
    file: "patterns.js",
    from: "\"*+?{^$]}\".includes(character) ? refuse()",
    to: "\"*+?{$]}\".includes(character) ? refuse()",
  },
  {
    file: "patterns.js",
    from: "if (ranges.length === MOST_POSITIONS)",
    to: "if (ranges.length > MOST_POSITIONS)",
  },
  {
    file: "patterns.js",
    from: "do {\n      const low",
    to: "while (this.peek() !== \"]\") {\n      const low",
  },
  {
    file: "mechanisms.js",
    from: "out[j >> 3] |= bits[j] << (j & 7)",
    to: "out[j >> 3] |= bits[j] << (7 - (j & 7))",
  },
  {
    file: "mechanisms.js",
    from: "outputs <= 1 << 8 ? 1",
    to: "outputs < 1 << 8 ? 1",
  },
  {
    file: "mechanisms.js",
    from: "outputs <= 1 << 16 ? 2",
    to: "outputs < 1 << 16 ? 2",
  },
  {
    file: "mechanisms.js",
    from: "const other = o + Number(o >= v);",
    to: "const other = o + Number(o > v);",
  },
  {
    file: "mechanisms.js",
    from: "bits[j] ^= here & (coin ^ (bits[j] & (flips ^ 1)));",
    to: "bits[j] ^= here & (coin ^ bits[j]);",
  },
  {
    file: "mechanisms.js",
    from: "const flips = Number(sure || a === ONE / 2n);",
    to: "const flips = 1;",
  },
  {
    file: "mechanisms.js",
    from: "const [zeros, ones] = [p, q].map(",
    to: "const [ones, zeros] = [q, p].map(",
  },
  {
    file: "mechanisms.js",
    from: "for (const wanted of [1, 0]) {",
    to: "for (const wanted of [0, 1]) {",
  },
  {
    file: "mechanisms.js",
    from: "words.subset(k - 1, w - wanted)",
    to: "words.subset(k - 1, w)",
  },
  {
    file: "mechanisms.js",
    from: "bits[k - 1] = moved;",
    to: "",
  },
  {
    file: "mechanisms.js",
    from: "variance(growth, few, k).exceeds(variance(growth, many, k)) ? many : few",
    to: "few",
  },
  {
    file: "mechanisms.js",
    from: "variance(growth, few, k).exceeds(variance(growth, many, k)) ? many : few",
    to: "many",
  },
  {
    file: "mechanisms.js",
    from: "k <= 1 << 16 ? 4 : 8)",
    to: "k < 1 << 16 ? 4 : 8)",
  },
  {
    file: "mechanisms.js",
    from: "(mixer >> (64n - half)) | 1n",
    to: "mixer >> (64n - half)",
    equivalent: "the 16 highest bits of each constant are odd already, and no query has buckets enough for 32 of them",
  },
  {
    file: "mechanisms.js",
    from: "code ^= code >> (half / 2n);",
    to: "code ^= code >> half;",
  },
  {
    file: "mechanisms.js",
    from: ">> (half - 1n);",
    to: ">> half;",
  },
  {
    file: "mechanisms.js",
    from: "variance(growth, 1, near).exceeds(variance(growth, 1, near + 1)) ? near + 1 : near",
    to: "near",
  },
  {
    file: "mechanisms.js",
    from: "LARGEST_G - 1)",
    to: "LARGEST_G)",
  },
  {
    file: "mechanisms.js",
    from: "const outputs = 2 ** k.toString(2).length;",
    to: "const outputs = 2 ** (k - 1).toString(2).length;",
  },
  {
    file: "mechanisms.js",
    from: "const differs = odd(row & columns[i]) ^ 1 ^ h[i];",
    to: "const differs = odd(row & columns[i]) ^ h[i];",
  },
  {
    file: "mechanisms.js",
    from: "number(columns[i] ^ (row & -row & -differs), outputs)",
    to: "number(columns[i] ^ (1 & -differs), outputs)",
  },
  {
    file: "mechanisms.js",
    from: "weights[largest] += ONE - weights.reduce((a, b) => a + b);",
    to: "weights[0] += ONE - weights.reduce((a, b) => a + b);",
  },
  {
    file: "mechanisms.js",
    from: "(b > a ? b : a)));\n    weights",
    to: "(b >= a ? b : a)).toString().length);\n    weights",
  },
  {
    file: "mechanisms.js",
    from: "given.inverted ? UNIT.minus(q) : q",
    to: "q",
  },
  {
    file: "mechanisms.js",
    from: "[p.plus(b).double, b.double].map((each) => (each < 1 ? rounded(each) : ONE))",
    to: "[p.plus(b), b].map(nearest)",
  },
  {
    file: "mechanisms.js",
    from: "lifetime: first.loss,",
    to: "",
  },
  {
    file: "mechanisms.js",
    from: "loss: (ones) => loss(ratio, ones),\n    draw: (sets, words) => {\n      const rows",
    to: "loss: () => loss(ratio),\n    draw: (sets, words) => {\n      const rows",
  },
  {
    file: "mechanisms.js",
    from: "Number(sure || a === ONE / 2n)",
    to: "Number(a === ONE / 2n)",
  },
  {
    file: "mechanisms.js",
    from: "rounded(f / 2)",
    to: "rounded(f)",
  },
  {
    file: "device.js",
    from: "state.queue.length + mostRows * n > policy.settings.queue_messages * n",
    to: "state.queue.length + mostRows * n >= policy.settings.queue_messages * n",
  },
  {
    file: "device.js",
    from: "decide(state, name, epoch); // so that each lost epoch is counted once",
    to: "",
  },
  {
    file: "device.js",
    from: "decide(state, name, epoch, query.given.once);",
    to: "decide(state, name, epoch);",
  },
  {
    file: "device.js",
    from: "Math.max(1, Math.min(policy.settings.upload_within, end - ready))",
    to: "Math.max(1, Math.min(policy.settings.upload_within, end - now))",
  },
  {
    file: "device.js",
    from: "query.given.strata[stratum]?.sampling ?? query.given.sampling",
    to: "query.given.sampling",
  },
  {
    file: "device.js",
    from: "times(new Fraction(ONE)).floor",
    to: "times(new Fraction(ONE)).nearest",
    equivalent: "every double of at most 1 that is above 2^-12 is a whole number over 2^64; below that, no vector samples so rarely",
  },
  {
    file: "device.js",
    from: "if (!found.length) found.push(nothing);",
    to: "",
  },
  {
    file: "device.js",
    from: "(found[i] ?? -1) < 0 ? nothing : found[i]",
    to: "found[i] ?? nothing",
    equivalent: "a row is in no bucket only where a column has no other, and there no data is -1 as well",
  },
  {
    file: "device.js",
    from: "query.given.rows === \"aggregate\" && given.length > 1 ? [] : given",
    to: "given",
  },
  {
    file: "device.js",
    from: "entry.spoke >= newest.spoke ? entry : newest",
    to: "entry.spoke > newest.spoke ? entry : newest",
    equivalent: "an epoch is decided once, so no two answers of a slot were sent in the same one",
  },
  {
    file: "device.js",
    from: "entry.spoke >= newest.spoke ? entry : newest",
    to: "entry",
  },
  {
    file: "device.js",
    from: "little(v, 8), little(before, 8)",
    to: "little(v, 8)",
  },
  {
    file: "device.js",
    from: "little(v, 8), little(before, 8)",
    to: "little(before, 8), little(v, 8)",
  },
  {
    file: "device.js",
    from: "const mine = state.memo.filter((entry) => entry.scope === scope.id && entry.slot === slot);",
    to: "const mine = state.memo.filter((entry) => entry.slot === slot);",
  },
  {
    file: "device.js",
    from: "const mine = state.memo.filter((entry) => entry.scope === scope.id && entry.slot === slot);",
    to: "const mine = state.memo.filter((entry) => entry.scope === scope.id);",
  },
  {
    file: "device.js",
    from: "if (entry) entry.spoke = epoch;",
    to: "",
  },
  {
    file: "device.js",
    from: "serial < seen.serial ||",
    to: "",
  },
  {
    file: "device.js",
    from: "(serial === seen.serial && written !== seen.digest)",
    to: "false",
  },
  {
    file: "device.js",
    from: "if (now >= expires) stop",
    to: "if (now > expires) stop",
  },
  {
    file: "device.js",
    from: "if (epoch < 0 || epoch >=",
    to: "if (epoch < 0 || epoch >",
  },
  {
    file: "device.js",
    from: "const expires = query.endOf(epoch) + policy.keeps(query);",
    to: "const expires = query.endOf(epoch) + policy.settings.queue_age;",
  },
  {
    file: "device.js",
    from: "state.versions[query.name] = {",
    to: "if (seen) state.versions[query.name] = {",
  },
  {
    file: "device.js",
    from: "chosen.sort((a, b) => a - b);\n};",
    to: "chosen;\n};",
  },
  {
    file: "device.js",
    from: "if (query.given.rows !== \"all\" && rows.length > 1) {",
    to: "if (rows.length > 1) {",
  },
  {
    file: "state.js",
    from: "epoch <= known.before || known.epochs.includes(epoch)",
    to: "epoch <= known.epochs[known.epochs.length - 1]",
  },
  {
    file: "state.js",
    from: "epoch <= known.before || known.epochs.includes(epoch)",
    to: "epoch === known.epochs[known.epochs.length - 1]",
  },
  {
    file: "state.js",
    from: "share.expires <= now);",
    to: "share.expires < now);",
  },
  {
    file: "state.js",
    from: "state.queue = state.queue.filter((share) => share.expires > now);",
    to: "state.queue = state.queue.filter((share) => share.expires >= now);",
  },
  {
    file: "ledger.js",
    from: "charge.time > now - limit.period",
    to: "charge.time >= now - limit.period",
  },
  {
    file: "ledger.js",
    from: "limit.each_analyst ? charge.analyst === analyst :",
    to: "",
  },
  {
    file: "ledger.js",
    from: "limit.analyst === null || limit.analyst === charge.analyst",
    to: "true",
  },
  {
    file: "ledger.js",
    from: "policy.limits.filter((limit) => limit.analyst === null || limit.analyst === analyst)",
    to: "policy.limits",
  },
  {
    file: "ledger.js",
    from: "Math.max(query.distinct, slots[slot] ?? 0)",
    to: "query.distinct",
  },
  {
    file: "ledger.js",
    from: "const due = cost.n > 0n || query.distinct > 1;",
    to: "const due = cost.n > 0n;",
  },
  {
    file: "ledger.js",
    from: "const due = cost.n > 0n || query.distinct > 1;",
    to: "const due = true;",
  },
  {
    file: "ledger.js",
    from: "spent.plus(cost).exceeds(Fraction.parse(budget.epsilon))",
    to: "spent.plus(sum).exceeds(Fraction.parse(budget.epsilon))",
  },
  {
    file: "ledger.js",
    from: "scope === null ? state.charges : state.charges.filter((charge) => charge.scope !== scope);\n    for",
    to: "state.charges;\n    for",
  },
  {
    file: "ledger.js",
    from: "state.charges = state.charges.filter((charge) => charge.scope !== scope);",
    to: "",
  },
  {
    file: "signing.js",
    from: "if (key.revoked) stop",
    to: "if (false) stop",
  },
  {
    file: "signing.js",
    from: "now < key.valid_from || now >= key.valid_until",
    to: "now < key.valid_from || now > key.valid_until",
  },
  {
    file: "signing.js",
    from: "now < key.valid_from || now >= key.valid_until",
    to: "now <= key.valid_from || now >= key.valid_until",
  },
  {
    file: "signing.js",
    from: "owner && owner !== key.public && !ring.lists(analyst, owner)",
    to: "owner && owner !== key.public",
  },
  {
    file: "signing.js",
    from: "most_rows <= terms.messages &&",
    to: "",
  },
  {
    file: "signing.js",
    from: "grace <= terms.grace &&",
    to: "",
  },
  {
    file: "signing.js",
    from: "schedule.expires <= terms.end;",
    to: "true;",
  },
  {
    file: "signing.js",
    from: "terms.guest === key.public &&",
    to: "",
  },
  {
    file: "signing.js",
    from: "ring.checkDelegate(await keyId(terms.owner), now);",
    to: "",
  },
  {
    file: "signing.js",
    from: "  ring.checkDelegate(id, now);\n",
    to: "",
  },
  {
    file: "signing.js",
    from: "now >= envelope.until",
    to: "now > envelope.until",
  },
  {
    file: "signing.js",
    from: "serial < given.serial &&",
    to: "serial <= given.serial &&",
  },
  {
    file: "signing.js",
    from: "given.serial <= serial + envelope.versions",
    to: "given.serial < serial + envelope.versions",
  },
  {
    file: "signing.js",
    from: "[given.sampling, ...(given.strata ?? [])]",
    to: "[given.sampling]",
    equivalent: "the effective query is compared with its envelope once more, for the same reason",
  },
  {
    file: "signing.js",
    from: "(envelope.inversion || !inverted) &&",
    to: "",
  },
  {
    file: "signing.js",
    from: "given.query === hex(await header.digest()) &&",
    to: "",
  },
  {
    file: "signing.js",
    from: "if (header.header.analyst !== key.owner) stop",
    to: "if (false) stop",
  },
  {
    file: "query.js",
    from: "if (!recipe.inverted) delete recipe.inverted;",
    to: "",
  },
  {
    file: "query.js",
    from: "({ ...stratum, sampling: version.strata[i] })",
    to: "stratum",
  },
  {
    file: "query.js",
    from: "if (this.ones > 1) named.push(this.ones);",
    to: "",
  },
  {
    file: "query.js",
    from: "encode(ask ? [...named, ask, value] : named)",
    to: "encode(named)",
  },
  {
    file: "query.js",
    from: "[\"analyst\", \"id\", \"sql\", \"columns\", \"mechanism\"].map",
    to: "[\"analyst\", \"sql\", \"columns\", \"mechanism\"].map",
  },
  {
    file: "query.js",
    from: "deniable channel ${owner ? 2 : 1}",
    to: "deniable channel 1",
  },
  {
    file: "query.js",
    from: "...(owner && { owner })",
    to: "",
  },
  {
    file: "query.js",
    from: "local.exceeds(Fraction.ofDouble(envelope.epsilon_per_answer))",
    to: "false",
  },
  {
    file: "query.js",
    from: "if (local.exceeds(most) ||",
    to: "if (",
  },
  {
    file: "query.js",
    from: "different(\"proxies\", proxies);",
    to: "",
  },
  {
    file: "query.js",
    from: "if (most_rows > 1 !== (rows === \"several\"))",
    to: "if (false)",
  },
  {
    file: "query.js",
    from: "&& slide <= window;",
    to: ";",
  },
  {
    file: "query.js",
    from: "memoize && this.mechanism.lifetime?.(ones)",
    to: "memoize && false",
  },
  {
    file: "query.js",
    from: "this.rowCost.times(fraction(this.mostRows * this.distinct))",
    to: "this.rowCost.times(fraction(this.mostRows))",
  },
  {
    file: "policy.js",
    from: "parts.findIndex((stratum) => strata.includes(stratum.name))",
    to: "parts.findIndex((stratum) => stratum.name === strata[0])",
  },
  {
    file: "policy.js",
    from: "query.cost.exceeds(this.ceiling)",
    to: "query.rowCost.exceeds(this.ceiling)",
  },
  {
    file: "policy.js",
    from: "const foreign = query.proxies.find((proxy) => !this.proxies.includes(proxy));",
    to: "const foreign = query.proxies.every((proxy) => !this.proxies.includes(proxy)) ? \"\" : undefined;",
  },
  {
    file: "checks.js",
    from: "else if (check || !open) refuse(at);",
    to: "else if (check) refuse(at);",
  },
  {
    file: "checks.js",
    from: "Object.hasOwn(required, part) ? required[part] : Object.hasOwn(optional, part) && optional[part];",
    to: "required[part] ?? optional[part];",
  },
  {
    file: "checks.js",
    from: "Array.from(value).length <= longest",
    to: "value.length <= longest",
  },
  {
    file: "checks.js",
    from: "value.value <= most && !(open && value.value === most)",
    to: "value.value <= most",
  },
  {
    file: "wire.js",
    from: "little(stratum, 2)",
    to: "stratum, 0",
  },
  {
    file: "wire.js",
    from: "const [id, key] = [words.bytes(16), words.bytes(16)];",
    to: "const [key, id] = [words.bytes(16), words.bytes(16)];",
  },
  {
    file: "wire.js",
    from: "const payloads = [...pads, xor([content, ...pads])];",
    to: "const payloads = [xor([content, ...pads]), ...pads];",
  },
  {
    file: "wire.js",
    from: "kind: report ? ANSWER : NOTHING",
    to: "kind: ANSWER",
  },
  {
    file: "siphash.js",
    from: "v[4] ^= 0xff;",
    to: "v[4] ^= 0xee;",
  },
  {
    file: "bytes.js",
    from: "Math.floor(value / 256 ** i)",
    to: "value >> (8 * i)",
  },
  {
    file: "bytes.js",
    from: "Math.floor(value / 256 ** i)",
    to: "Math.trunc(value / 256 ** i)",
  },
  {
    file: "asking.js",
    from: "(value !== undefined) !== (ask === \"value\")",
    to: "false",
  },
  {
    file: "asking.js",
    from: "if (each.length !== size) refuse(name);",
    to: "",
  },
  {
    file: "mechanisms.js",
    from: "if (short && w === 1)",
    to: "if (short && w <= 2)",
  },
  {
    file: "mechanisms.js",
    from: "while (points(q, t) < k) t++;",
    to: "while (points(q, t) <= k) t++;",
  },
  {
    file: "mechanisms.js",
    from: "while (points(q, t) < k) t++;",
    to: "while (q ** t < k) t++;",
  },
  {
    file: "mechanisms.js",
    from: "if (q % d === 0) refuse(\"mechanism.q\");",
    to: "",
  },
  {
    file: "mechanisms.js",
    from: "if (q ** t > LARGEST_SPACE)",
    to: "if (q > LARGEST_SPACE)",
  },
  {
    file: "mechanisms.js",
    from: "favouring(growth, points(q, t - 1), all)",
    to: "favouring(growth, 1, q)",
  },
  {
    file: "mechanisms.js",
    from: "1 + words.below(others - 1)",
    to: "words.below(others)",
  },
  {
    file: "mechanisms.js",
    from: "pointWith(v, 1 - h[i],",
    to: "pointWith(v, h[i],",
  },
  {
    file: "mechanisms.js",
    from: "any[i] + h[i] * (nonzero[i] - any[i])",
    to: "any[i]",
  },
  {
    file: "mechanisms.js",
    from: "const nonzero = sets.map(() => 1 + words.below(others - 1));\n      const any = sets.map(() => words.below(others));",
    to: "const any = sets.map(() => words.below(others));\n      const nonzero = sets.map(() => 1 + words.below(others - 1));",
  },
  {
    file: "mechanisms.js",
    from: "width(all),",
    to: "width(others),",
    equivalent: "it only decides whether a report fits its size class, and the smallest class has room for 8 bytes",
  },
  {
    file: "mechanisms.js",
    from: "Math.ceil(found[0] / each)",
    to: "Math.floor(found[0] / each)",
  },
  {
    file: "mechanisms.js",
    from: "sizes[0] !== first ||",
    to: "sizes[0] > first ||",
  },
  {
    file: "mechanisms.js",
    from: "const levels = sizes.map((size) => subset(size, growth, true));",
    to: "const levels = sizes.map((size) => subset(size, growth));",
  },
  {
    file: "mechanisms.js",
    from: "1 + Math.max(...levels.map((level) => level.bytes))",
    to: "1 + levels[levels.length - 1].bytes",
    equivalent: "no level has more nodes than the leaves, so none has longer reports",
  },
  {
    file: "mechanisms.js",
    from: "below.slice(depth)",
    to: "below.slice(depth + 1)",
  },
  {
    file: "mechanisms.js",
    from: "loss: () => Math.max(...levels.map((level) => level.loss(1))),",
    to: "loss: () => levels[0].loss(1),",
    equivalent: "losses of levels differ by the rounding of their coins alone, which is finest where nodes are fewest: in every vector the first level's is the largest",
  },
  {
    file: "mechanisms.js",
    from: "rows[chosen[j]].set([depth, ...report])",
    to: "rows[chosen[j]].set([...report, depth])",
  },
  {
    file: "mechanisms.js",
    from: "words.below(levels.length)",
    to: "levels.length > 1 ? words.below(levels.length) : 0",
  },
  {
    file: "projective.js",
    from: "Number(v >= points(q, r))",
    to: "Number(v > points(q, r))",
  },
  {
    file: "projective.js",
    from: "y.splice(lead, 0, 0);",
    to: "y.splice(t - 1 - lead, 0, 0);",
  },
  {
    file: "projective.js",
    from: "sum + (q - each) * y[place]",
    to: "sum + each * y[place]",
  },
  {
    file: "projective.js",
    from: "((each * scale) % q)",
    to: "each",
  },
  {
    file: "projective.js",
    from: "place - found) * Number(each > 0)",
    to: "place - found) * Number(each === 1)",
  },
];
