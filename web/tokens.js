/*
 * tokens.js - a reply as tinted tokens, what is said of one of them, and the legend.
 *
 * A stream may hold text back, so that a token comes without text and a later one brings it. Where the texts of those that wait are the
 * text that came, each gets its own; else they share one span. Tokens are drawn once a frame, however many came, and a word when it is
 * whole: half a word at the end of a line would move to the next one as it grows.
 */
import { SCALE, STATES, TABLES, REASONS, meaning, shown, number, percent, ms, make } from "./words.js";

const HELD_MOST = 12; // pieces: what is longer is no word
const STROKE_MOST = 250; // pieces in one frame: a reply that is repeated comes all at once
const EASTERN = /[\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef]/; // lines may break anywhere there

/** How many of the pieces end in front of the word that is still growing. */
function whole(pieces) {
  const last = pieces.length - 1;
  if (/\s$/.test(pieces[last][1])) return pieces.length;
  let at = last;
  while (at > 0 && !/^\s/.test(pieces[at][1]) && !/\s$/.test(pieces[at - 1][1])) at--;
  const held = pieces.slice(at);
  return held.length > HELD_MOST || held.some(([, text]) => EASTERN.test(text)) ? pieces.length : at;
}

export class TokenView {
  /** `element` gets the tokens; onPick(token) is told which one is looked at. */
  constructor(element, onPick) {
    this.element = element;
    this.onPick = onPick;
    this.text = "";
    this.tokens = [];
    this.counts = {};
    this.spans = [];
    this.waiting = [];
    this.fresh = [];
    this.frame = 0;
    this.active = -1;
    element.classList.add("tokens");
    element.tabIndex = 0;
    element.setAttribute("role", "group");
    element.addEventListener("mouseover", (event) => this.pick(event.target, false));
    element.addEventListener("click", (event) => this.pick(event.target, true));
    element.addEventListener("keydown", (event) => this.move(event));
    element.addEventListener("focus", () => { if (this.active < 0 && this.spans.length && element.matches(":focus-visible")) this.look(0); });
  }

  add(token, text) {
    this.text += text;
    if (token) {
      this.tokens.push(token);
      this.counts[token.by] = (this.counts[token.by] || 0) + 1;
      this.waiting.push(token);
    }
    if (!text) return;
    const own = this.waiting.map((one) => one.text).join("");
    if (this.waiting.length > 1 && own === text) this.waiting.forEach((one) => this.fresh.push([[one], one.text]));
    else this.fresh.push([this.waiting, text]);
    this.waiting = [];
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const ready = this.over ? this.fresh.length : this.fresh.length && whole(this.fresh);
    if (!ready) return;
    const batch = document.createDocumentFragment();
    for (const [tokens, text] of this.fresh.splice(0, STROKE_MOST < ready ? STROKE_MOST : ready)) {
      // Blanks before a word stay plain: at the end of a line a tint of nothing would be left over.
      const blanks = /^ +(?=\S)/.exec(text)?.[0] ?? "";
      batch.append(blanks, this.span(tokens, text.slice(blanks.length)));
    }
    this.element.append(batch);
    this.onDraw?.();
    if (ready > STROKE_MOST && !this.over) this.frame = requestAnimationFrame(() => this.draw());
  }

  span(tokens, text) {
    const token = tokens.at(-1);
    const span = make("span", "t", text);
    if (!token) return span;
    span.classList.add("by-" + token.by);
    span.dataset.letter = meaning(token.by).letter;
    if (token.gate && !token.gate.pass) span.classList.add(token.gate.woke ? "woke" : "doubted");
    if (token.state && token.state !== "normal") span.classList.add("state-" + token.state);
    span.dataset.at = this.spans.length;
    span.waneTokens = tokens;
    this.spans.push(span);
    return span;
  }

  pick(target, pinned) {
    const span = target.closest?.(".t");
    if (span?.dataset.at) this.look(Number(span.dataset.at), pinned);
  }

  move(event) {
    const last = this.spans.length - 1;
    const steps = { ArrowRight: this.active + 1, ArrowLeft: this.active - 1, Home: 0, End: last };
    if (!(event.key in steps) || last < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.look(Math.min(last, Math.max(0, steps[event.key])), true);
    this.spans[this.active].scrollIntoView({ block: "nearest" });
  }

  look(at, pinned = false) {
    this.spans[this.active]?.classList.remove("active");
    this.active = at;
    this.spans[at].classList.add("active");
    this.onPick?.(this.spans[at].waneTokens, pinned);
  }

  blur() {
    this.spans[this.active]?.classList.remove("active");
    this.active = -1;
  }

  /** Nothing more comes. Done when all is drawn; a tab that nobody sees gets no frames, so that it waits for none. */
  async finish() {
    if (this.waiting.length) this.fresh.push([this.waiting, ""]);
    this.waiting = [];
    this.over = true;
    for (this.draw(); this.fresh.length; this.draw()) await new Promise((done) => setTimeout(done, 16));
    const total = this.tokens.length;
    this.element.setAttribute("aria-label", `Reply of ${total} tokens. The arrow keys go from token to token.`);
  }

  /** Share of tokens for which the whole head was not computed. */
  spared() {
    return this.tokens.length ? 1 - (this.counts.dense || 0) / this.tokens.length : 0;
  }
}

/** A thin bar: how the reply's tokens divide among the tints. */
export function mixBar(counts) {
  const bar = make("div", "mix");
  const total = Object.values(counts).reduce((sum, one) => sum + one, 0);
  const words = [];
  for (const { by, name } of SCALE) {
    if (!counts[by]) continue;
    const part = make("span", "by-" + by);
    part.style.flexGrow = counts[by];
    bar.append(part);
    words.push(`${name} ${percent(counts[by] / total)}`);
  }
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", words.join(", "));
  bar.title = words.join(" · ");
  return bar;
}

/** Where a vote chose another answer than the one that was streamed: show it below, and return it. */
export function addVote(element, result) {
  const chosen = result?.wane?.vote?.text;
  if (!chosen) return null;
  element.append(make("p", "vote-note", "Three answers were compared, and another one stands:"), make("p", "vote-text", chosen));
  return chosen;
}

function lineMark(className, text) {
  return make("li", "", make("i", "t " + className, "token"), make("span", "", text));
}

export function drawLegend(element) {
  const scale = make("div", "scale");
  scale.setAttribute("aria-hidden", "true");
  for (const { by, letter } of SCALE) scale.append(make("span", "by-" + by, letter));
  const list = make("ul", "scale-list");
  for (const { by, letter, name, short } of SCALE)
    list.append(make("li", "", make("i", "chip by-" + by, letter), make("span", "", make("b", "", name), " ", make("span", "muted", short))));
  const marks = make("div", "marks",
    make("ul", "", make("li", "muted", "Below: the gate"), lineMark("doubted", "doubted it"), lineMark("woke", "woke a vote")),
    make("ul", "", make("li", "muted", "Above: the governor"), lineMark("state-locked", "colder"), lineMark("state-explore", "freer"), lineMark("state-protect", "steadier")));
  const letters = make("input");
  letters.type = "checkbox";
  letters.addEventListener("change", () => document.documentElement.classList.toggle("letters", letters.checked));
  const title = make("h2", "", "Colour is work");
  title.id = "legend-title";
  const ends = make("p", "scale-ends", make("span", "", "skipped"), make("span", "", "done"));
  ends.setAttribute("aria-hidden", "true");
  const more = make("details", "legend-more", make("summary", "", "What do they mean?"), list,
    make("p", "small lines-title", "Lines are second thoughts"), marks, make("label", "check", letters, " Letters in the text"));
  more.open = matchMedia("(min-width: 720px)").matches;
  element.replaceChildren(title, make("p", "small muted legend-about", "Blue: work was skipped. Orange: it was done. The text is the same."), scale, ends, more);
}

function bestRow(one, chosen, most) {
  const bar = make("span", "best-bar");
  const fill = make("span", "best-fill");
  fill.style.width = `${Math.max(1, 100 * one.p / most)}%`;
  bar.append(fill);
  const row = make("li", chosen ? "chosen" : "", make("code", "", shown(one.text)), bar, make("span", "best-p", percent(one.p)));
  if (chosen) row.append(make("span", "unseen", ", drawn"));
  return row;
}

function gateMeter(gate) {
  const least = Math.min(-1, gate.lch), most = Math.max(2, gate.lch, gate.tau), at = (x) => 100 * (x - least) / (most - least);
  const meter = make("div", "meter");
  const value = make("span", "meter-value" + (gate.pass ? "" : " below"));
  value.style.width = `${at(gate.lch)}%`;
  const mark = make("span", "meter-tau");
  mark.style.left = `${at(gate.tau)}%`;
  meter.append(value, mark);
  meter.setAttribute("aria-hidden", "true");
  return meter;
}

function fact(list, name, ...value) {
  list.append(make("div", "", make("dt", "", name), make("dd", "", ...value)));
}

/** Of a logarithm to base 10. */
function odds(log10) {
  const x = 10 ** log10;
  return x >= 1 ? `${number(x, x < 9.95 ? 1 : 0)} to 1` : `1 to ${number(1 / x, 1 / x < 9.95 ? 1 : 0)}`;
}

function facts(token) {
  const list = make("dl", "facts");
  const [level1, level2] = token.survivors;
  if (["level1", "level2", "exact"].includes(token.head))
    fact(list, "Survivors", `${number(level1)} → ${number(level2)} of ${number(token.vocabulary)}; ${number(token.computed)} computed`,
      make("span", "muted", "who passed the coarse look, and the finer one"));
  if (token.gate) {
    const { lch, tau, pass, reason, woke } = token.gate;
    fact(list, "Gate", `${pass ? "PASS" : "REJECT"}: LCH ${lch.toFixed(2)} against τ ${tau.toFixed(2)}`, gateMeter(token.gate),
      make("span", "muted", `odds of ${odds(lch)} that three answers would leave it alone; ${odds(tau)} are asked for`),
      pass ? null : make("span", "muted", REASONS[reason] + (woke ? "; this woke the vote" : "")));
  }
  if (token.table) fact(list, "Table", TABLES[token.table]);
  if (token.state) fact(list, "Governor", STATES[token.state]);
  if (token.changed) fact(list, "Correction", "had a hand in this token");
  if (token.redrawn) fact(list, "Blocks", "disagreed: a second draw stands");
  if (token.checked) fact(list, "Shadow check", "was computed both ways, and compared");
  if (token.drafted && token.by !== "draft") fact(list, "Draft", "accepted");
  const since = token.ms == null ? [] : [`${ms(token.ms)} since the token before`];
  if (token.by !== "memo") since.push(`${ms(token.layer_ms)} for head, gate and draw`);
  fact(list, "Time", since.join("; ") || "the reply begins with it");
  return list;
}

export function drawDetail(element, tokens) {
  const title = make("h2", "", "One token");
  title.id = "detail-title";
  const token = tokens?.at(-1);
  if (!token) {
    element.replaceChildren(title, make("p", "muted small", tokens ? "This text came without a token." :
      "Point at a piece of an answer, or go through it with the arrow keys: what decided it is told here."));
    return;
  }
  const { name, long, letter } = meaning(token.by);
  title.replaceChildren(make("code", "token-text", shown(tokens.map((one) => one.text).join(""))), make("span", "muted", ` token ${token.index + 1}`));
  const parts = [title,
    make("p", "decided", make("i", "chip by-" + token.by, letter), make("b", "", name)),
    make("p", "small muted", long)];
  if (token.top.length) {
    const best = make("ol", "best");
    for (const one of token.top) best.append(bestRow(one, one.id === token.id, token.top[0].p));
    parts.push(make("h3", "", "Best five"), best);
    if (!token.top.some((one) => one.id === token.id)) parts.push(make("p", "small muted", "The drawn one is not among them."));
  }
  parts.push(facts(token));
  element.replaceChildren(...parts);
}
