// What the page says, in the order in which it says it.

const many = (n, one, more) => `${n} ${n === "1" ? one : more}`;
export default {
  lang: "en", dir: "ltr", name: "English",
  skip: "Skip to content", language: "Language", help: "How does this protect me?", back: "Back", tryAgain: "Try again", step: (i, n) => `Step ${i} of ${n}`,
  only: (name) => `This poll is in ${name} only.`,

  loading: "Checking the poll", loadingWhy: "Two operators must show the same questions, signed with the key in your link.",
  asking: "asking", same: "same, signed", kept: "no reply; the same, signed, earlier", differs: "does not match", silent: "no reply",

  asks: "asks", signed: "Signed with the key in your link", facts: (n, m, day) => `${many(n, "question", "questions")} · ${many(m, "minute", "minutes")} · until ${day}`,
  goes: "Results go to", contact: "Questions to",
  label: "What happens to your answer", labels: "What happens to your answers",
  coins: "Coins change it", coinsSay: "Coins may replace your answer before anything leaves this phone. Your own answer never leaves it.",
  odds: "Nobody can be sure", oddsSay: (f) => `Whatever you answer, nobody’s odds about you change by more than a factor of ${f}.`, oddsAll: (f) => `Whatever you answer, all questions together, nobody’s odds about you change by more than a factor of ${f}.`,
  likely: "How likely someone thinks it of you:", before: (a) => `${a} in 100 before`, after: (b) => `at most ${b} in 100 after`, weak: "So many questions together hide less than one alone.",
  crowd: "Only the crowd is counted", crowdSay: (n) => `Results appear once ${n} people have answered.`,
  shows: "What does show", showsSay: "That you took part. The two operators see your network address, as any website does.",
  stop: "You can stop at any time until you send. After that your answer cannot be deleted: nobody can tell which one it is.",
  code: "Your code", codeSay: "It allows one answer. It is not tied to what you say.", codeBad: "A code has 20 letters and digits. Please check it.", agree: "Agree and start", not: "Not now",

  phone: "This phone tosses", hand: "I toss myself", who: "Who tosses the coins?",
  question: (i, n) => `Question ${i} of ${n}`, budget: (a, b) => `${a} of ${b} of the privacy budget`, 
  stays: "Your answer stays on this page. It is erased as soon as the coins have fallen.", upTo: (n) => `Choose up to ${n}, or none.`, counts: (range) => `Counts as ${range}.`, from: (a, b) => `${a} to ${b}`,
  nothing: "None of these",
  choose: "Choose an answer first.", chooseMost: (n) => `At most ${n}.`, chooseRange: (a, b) => `A whole number from ${a} to ${b}.`, next: "Next", toCoins: "Go to the coins",
  handWhy: "This phone never learns your answer, not even for a moment.",
  handRules: (rule, yes, no, k) => ({
    2: ["Roll a die where nobody can see it.", "5 or 6: answer the question truthfully below.", `1 or 2: tap ${yes}. 3 or 4: tap ${no}.`],
    3: ["Toss a coin where nobody can see it.", "Heads: answer the question truthfully below.", `Tails: toss again. Heads, tap ${yes}. Tails, tap ${no}.`],
    5: ["Roll a die where nobody can see it.", "2, 3, 4 or 5: answer the question truthfully below.", `1: tap ${yes}. 6: tap ${no}.`],
    7: ["Toss two coins where nobody can see them.", "At least one shows heads: answer the question truthfully below.", `Both show tails: toss one of them again. Heads, tap ${yes}. Tails, tap ${no}.`],
    11: ["Roll a die where nobody can see it.", "1 to 5: answer the question truthfully below.", `6: toss a coin. Heads, tap ${yes}. Tails, tap ${no}.`],
    many: ["Toss a coin where nobody can see it.", "Heads: answer the question truthfully below.", k === 3 ? "Tails: roll a die. 1 or 2 is the first answer, 3 or 4 the second, 5 or 6 the third." : k === 6 ? "Tails: roll a die, and tap the answer with that number." : `Tails: roll a die until it shows at most ${k}, and tap the answer with that number.`],
  })[rule],
  handPair: "No coin? Compare two statements instead", handCoins: "Use coins instead", pair1: "Think of somebody’s phone number. Tell nobody whose.", pair2: (n, a, b) => `The last ${n} digits of that number are between ${a} and ${b}.`, pairSay: "Of the statements A and B:", differ: "Exactly one is true", same2: "Both true, or both false",
  search: "Search the list", searchHint: "What you type stays on this phone.", found: (n) => `${n} found`, none: "Not in the list.", chosen: (name) => `Chosen: ${name}`,
  handSay: "What do the coins let you say?",
  toCheck: "See what leaves",

  coinTitle: "Now the coins", rule1: "Heads", rule1Say: "Your own answer is sent.", rule2: "Tails", rule2Say: "The second coin answers.", rule2Many: "Chance picks one of the answers.",
  toss: "Toss the coins", first: "First coin", second: "Second coin", unused: "not needed", heads: "heads", tails: "tails", covered: "covered",
  fellHeads: "Heads: your own answer is sent.", fellTails: (said) => `Tails: the second coin answers “${said}”.`, fellCovered: "The coins have fallen. Only this phone saw them.", fellMany: (n, all) => `${n} of ${all} by chance`,
  eachBit: (n) => `${n} coins, one for each answer`, own: "your answer", chance: "by chance", allErased: "Your own answer is erased. The coins go when you go on.",
  coinNote: "The coins are drawn the moment you tap, by the phone’s random generator; the turning only shows them. You can toss once: picking the toss you like would undo the protection.", cover: "Someone watching? Keep the coins covered", uncover: "Show the coins",

  leaves: "This is all that leaves", leavesSay: "All that anyone will ever see of your answer.", slip: "The answer this phone gives", slips: "The answers this phone gives", sure: "Yours or the coin’s? Nobody can tell.",
  torn: "Torn into two pieces. Each alone is noise:", runBy: "run by", together: "Only the count sees the pieces together, and not who sent them.",
  also: "Beside it", alsoSay: "each operator sees your network address, the time, and a code for one answer. Each gets a different code.", erased: "Erased", erasedSay: "your own answer and the coins.", handKept: "Never known", handKeptSay: "to this phone: your own answer. You tossed.",
  bytes: (n) => `${n} bytes`, alsoOpen: "each operator sees your network address and the time.",
  send: "Send", dont: "Do not send", 

  sending: "Sending", queued: "Waiting for a connection", queuedSay: (day) => `The two pieces wait on this phone. Your own answer is not among them. They leave when you are online and this page is open, until ${day}.`, halfSent: "One piece has arrived. Alone it is noise. The other is tried again by itself.", pieceWaits: "waits", pieceGoes: "on its way", pieceThere: "arrived",
  sent: "Sent. Thank you.", receipt: "Receipt", asked: "Asked by", about: "About", day: "Day", to: "Sent to", cost: "Cost", costSay: (e) => `epsilon ${e}`, digest: "Poll", oddsPast: (f) => `Whatever you answered, nobody’s odds about you change by more than a factor of ${f}.`, proves: "This shows that you took part, not what was said. What was said is not kept on this phone.",
  save: "Save receipt", see: "See results",

  answers: (n) => many(n, "answer", "answers"), live: (time) => `updated ${time} UTC`, estimate: "estimate", interval: "95 % interval", withheld: "Not enough people yet", withheldSay: (b) => `Below ${b} answers nothing is shown, so that nobody can be picked out of a few.`, whisker: "What the coins added is taken out again. In 95 of 100 such polls the whisker holds the true proportion.", reach: (now) => `The widest whisker is ± ${now} points.`, once: "One code for each person, each used once.", anyone: "Anyone with the link could answer twice.", soon: "Results appear when the poll has ended.", hidden: "Only the organiser sees the results.", noResults: "The results cannot be reached just now.", ofThose: "These are the people who answered, not all who were asked.", 

  closed: "This poll is closed", closedSay: (day) => `It closed on ${day}. Nothing was sent.`,
  already: "You have answered", alreadySay: (day) => `This phone answered on ${day}. One answer for each person, and coins fall only once: a second toss would tell more about you.`,
  used: "This code has been used", usedSay: "One answer for each code. Your answer was not counted, and no piece of it was kept.", usedAsk: "Was it not you? Tell the organiser, and ask for a new code.",
  clock: "Your clock is wrong", clockSay: "This phone’s clock differs from the operators’ by more than five minutes. Set it and open the link again. Nothing was sent.", late: "Too late to count", lateSay: "An operator no longer takes this answer. It was not counted.", store: "This browser keeps nothing", storeSay: "The page must remember that you have answered, and this browser does not let it. Nothing was sent. Try an ordinary window, not a private one.", plainHttp: "This page needs https", plainHttpSay: "Without it, the browser offers no way to check signatures. Nothing was sent.",
  off: "No operator can be reached", offSay: "You seem to be offline, or both operators are down. Nothing was sent.", half: "One operator does not reply", halfSay: (name) => `${name} does not reply. Both must show the same poll before you answer, so please wait. Nothing was sent.`,
  tampered: "Do not answer", tamperedSay: "This poll was changed on its way to you, or your link is not genuine.", tamperedNothing: "Nothing was sent. This page will not go on.", checks: "What was checked", keyWant: "Key in your link", keyGot: "Key that signed", badSignature: "Changed after it was signed", badKey: "Signed with another key", badCopies: "The operators show different polls", badPage: "The page’s host shows another poll than your link names", badLink: "Your link is not complete", tellThem: "Tell the person who gave you the link, in person or by phone. Show them this page.", shownBy: (name) => `Shown by ${name}`, copy: "Copy report", copied: "Copied",
  bye: "Nothing was sent", byeSay: "You can close this page, or come back by the same link.",

  how: "How does this protect me?", howSay: "Coins change answers before they leave. So nobody can be sure about one person, and the proportion among many can still be worked out.",
  seesTitle: "Who sees what", sees: [["Each operator", "that you answered, and a piece of noise"], ["Both together, or one with the count", "the answer after the coins, and from whom"], ["The count", "answers after the coins, without names"], ["The organiser", "results of many people"], ["Nobody", "your own answer"]],
  notTitle: "What it does not do", nots: ["It does not hide that you took part.", "It does not help against someone who watches this screen or controls this phone.", "This page cannot vouch for itself. If you do not trust it, toss the coins yourself: then it never learns your answer."],
  checkTitle: "Check it", checkSay: "Compare these with what the organiser published. To check the page as well, run on a computer: deniable poll verify LINK", pollHash: "This poll", keyHash: "Key",
};
