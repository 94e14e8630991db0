/* words.js - what the page says of a decision: the scale of work, the marks, and the sentences behind them. */

/** From what was remembered to what was computed whole: the order of the tints. */
export const SCALE = [
  { by: "memo", letter: "M", name: "Remembered", short: "the model did not run",
    long: "This very context was answered before, so the token was repeated and the model did not run at all." },
  { by: "draft", letter: "D", name: "Drafted", short: "guessed ahead, and checked",
    long: "It was guessed ahead of the model and checked together with others in one run; the draw gave the same token." },
  { by: "table", letter: "T", name: "Table", short: "a record confirms it",
    long: "The context is in the table of recorded ones, and the tokens that count are the recorded ones: gate and correction were skipped." },
  { by: "level1", letter: "1", name: "Level 1", short: "a coarse look proves it",
    long: "The coarse sketch of the output layer left only a few tokens; those were computed exactly, all others are proved not to matter." },
  { by: "level2", letter: "2", name: "Level 2", short: "a finer look proves it",
    long: "Too many tokens passed the coarse sketch; the finer one ruled out all but a few, and those were computed exactly." },
  { by: "exact", letter: "X", name: "Exact", short: "many computed, the rest proved",
    long: "Both sketches left many tokens, so that many were computed exactly; the rest is still proved not to matter." },
  { by: "dense", letter: "F", name: "Full head", short: "everything was computed",
    long: "The whole output layer was computed, as a plain engine does for every token." },
];

const NONE = { by: "none", letter: "–", name: "No head", short: "", long: "A body without a head: for measuring." };
const BY = Object.fromEntries(SCALE.map((one) => [one.by, one]));

export function meaning(by) {
  return BY[by] || NONE;
}

export const STATES = {
  normal: "normal: it leaves the draw as it was asked for",
  locked: "locked: the model is very sure, the draw is colder",
  explore: "explore: the model is unsure, the draw may wander",
  protect: "protect: attention jumped, the draw is kept steady",
};

export const TABLES = {
  strict: "hit, to the last logit",
  rank: "hit, by rank",
  miss: "knows the context, does not fit",
};

export const REASONS = {
  doubt: "the odds were too low",
  revival: "far into the reply, and no token stands out",
  forced: "a forced check: the draw is hot",
  always: "every token is doubted in this mode",
  warm_up: "to warm up",
};

/** docs/ssp.md, for people. */
export const SSP = [
  { key: "domain", title: "Domain", about: "What the text is about: how much must speak for a token before a second opinion is spared.",
    values: {
      legal: "Asks for 1.3 times the odds, and more where there are documents. Rules that keep a ban a ban hold five times harder.",
      medical: "Asks for 1.4 times the odds. Draws from the best 40 tokens only, and rules hold ten times harder.",
      finance: "Asks for 1.25 times the odds. Draws from the best 20 tokens only: figures come from the head or are wrong.",
      tech: "Asks for 1.1 times the odds. Rules rest: a “must not” in code is rarely a ban.",
      creative: "Asks for 0.7 times the odds. No rules, no clamp, no cooling over a long talk: a story lives on the tail.",
    } },
  { key: "confidence", title: "Confidence", about: "How sure the model must be before nobody else is asked.",
    values: {
      high: "Asks for 3.2 times the odds, and bears a quarter of the doubts before three answers are compared.",
      medium: "As the settings say.",
      low: "Asks for a third of the odds, and bears four times the doubts.",
    } },
  { key: "tolerance", title: "Tolerance", about: "What may be said at all, and when a loop ends.",
    values: {
      strict: "What a rule holds is never drawn; the best 20 tokens only; a loop ends sooner.",
      balanced: "As the settings say; a loop ends.",
      lenient: "Rules hold four times less, no clamp, and loops go on.",
    } },
  { key: "fallback", title: "Fallback", about: "What stands at the end when the fuse ends a reply.",
    values: {
      conservative: "A sentence that declines to go on.",
      transparent: "What happened, in numbers.",
      none: "Nothing: the reply just ends.",
    } },
];

/** A token's text with its spaces and line ends made visible. */
export function shown(text) {
  return text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replace(/^ +| +$/g, (blanks) => "␣".repeat(blanks.length)) || "∅";
}

export function number(value, digits = 0) {
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function percent(p) {
  if (p >= 0.9995) return "100 %";
  return (p < 0.01 ? "< 1" : p < 0.1 ? (100 * p).toFixed(1) : Math.round(100 * p)) + " %";
}

export function ms(value) {
  if (value == null) return "–";
  if (value < 0.1) return `${Math.round(1000 * value)} µs`;
  if (value < 10) return `${value.toFixed(value < 1 ? 2 : 1)} ms`;
  return value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(value < 10000 ? 2 : 1)} s`;
}

/** An element with class, text and children. */
export function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.filter((child) => child != null));
  return element;
}
