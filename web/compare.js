/* compare.js - the same question under off, legacy and wane, side by side; where they part, if they do. */
import { reply, Refusal } from "./api.js";
import { TokenView, mixBar, drawDetail, addVote } from "./tokens.js";
import { make, ms, shown } from "./words.js";

const WAYS = [
  ["off", "Off", "the plain engine’s answer"],
  ["legacy", "Legacy", "every token corrected"],
  ["wane", "wane", "corrected where something asks"],
];

/** Index of the first token in which they differ; -1: they are the same. */
export function parting(first, second) {
  const most = Math.max(first.length, second.length);
  for (let i = 0; i < most; i++) if (first[i]?.id !== second[i]?.id) return i;
  return -1;
}

export class Compare {
  constructor(onRefusal) {
    this.onRefusal = onRefusal;
    this.allowed = ["off"];
    this.running = null;
    this.verdict = document.getElementById("verdict");
    this.button = document.getElementById("compare-run");
    this.columns = WAYS.map(([mode, title, about]) => this.column(mode, title, about));
    document.getElementById("columns").append(...this.columns.map((one) => one.element));
    document.getElementById("compare-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.running) this.running.abort();
      else this.run();
    });
  }

  column(mode, title, about) {
    const column = { mode, text: make("div", "answer"), stats: make("p", "column-stats muted small", "–"), mark: make("span", "badge"), mix: make("div", "column-mix") };
    column.detail = make("div", "detail column-detail");
    column.element = make("article", "column", make("header", "", make("h2", "", title, column.mark), make("p", "small muted", about)),
      column.mix, column.text, column.stats, column.detail);
    return column;
  }

  know(state) {
    this.allowed = state.request_modes;
    for (const column of this.columns) {
      if (this.allowed.includes(column.mode) || this.running) continue;
      column.text.replaceChildren(make("p", "muted small", "This server lets no request choose this mode. Start it with ",
        make("code", "", "--request-modes off,legacy,wane"), "."));
    }
  }

  async one(column, request, signal) {
    column.mark.className = "badge";
    column.mark.textContent = "";
    column.text.replaceChildren();
    column.detail.replaceChildren();
    const fresh = make("div", "answer");
    column.text.replaceWith(fresh);
    column.text = fresh;
    column.view = new TokenView(fresh, (tokens) => drawDetail(column.detail, tokens));
    column.stats.textContent = "waiting …";
    column.error = null;
    try {
      column.result = await reply({ ...request, sfcl_mode: column.mode }, { signal, onToken: (token, text) => column.view.add(token, text) });
    } catch (error) {
      column.error = error;
      if (error instanceof Refusal) this.onRefusal(error);
      await column.view.finish();
      fresh.append(make("p", "error small", error.name === "AbortError" ? "stopped" : error.message));
    }
    await column.view.finish();
    const { view, result } = column, count = view.tokens.length;
    if (count) column.mix.replaceChildren(mixBar(view.counts));
    addVote(fresh, column.error ? null : result);
    column.stats.textContent = column.error || !result ? `${count} tokens` :
      `${count} tokens · ${((count - 1) / ((result.wholeMs - result.firstMs) / 1000 || 1)).toFixed(1)} a second · first after ${ms(result.firstMs)}`;
  }

  async run() {
    const value = (name) => document.getElementById("compare-" + name).value;
    const request = {
      messages: [{ role: "user", content: value("prompt").trim() || "Hello" }],
      wane_memo: false, // what was remembered would win the race without running
      seed: Number(value("seed")), max_tokens: Number(value("tokens")), temperature: Number(value("temperature")),
    };
    const columns = this.columns.filter((one) => this.allowed.includes(one.mode));
    this.running = new AbortController();
    this.button.textContent = "Stop";
    this.verdict.textContent = "";
    const { signal } = this.running;
    if (document.getElementById("compare-together").checked) await Promise.all(columns.map((one) => this.one(one, request, signal)));
    else for (const one of columns) if (!signal.aborted) await this.one(one, request, signal);
    this.running = null;
    this.button.textContent = "Compare";
    this.judge(columns.filter((one) => !one.error && one.view));
  }

  /** Every one against the first: mark what is the same, and the token where it is not. */
  judge(columns) {
    const [first, ...others] = columns;
    if (!others.length) {
      this.verdict.textContent = this.columns.some((one) => one.error?.name === "AbortError") ? "Stopped." : "There is only one answer, and nothing to compare it with.";
      return;
    }
    const words = [];
    first.mark.className = "badge base";
    first.mark.textContent = "compared with";
    for (const one of others) {
      const at = parting(first.view.tokens, one.view.tokens);
      const same = at < 0;
      one.mark.className = "badge " + (same ? "same" : "other");
      one.mark.textContent = same ? "✓ identical" : `≠ from token ${at + 1}`;
      words.push(same ? `${one.mode} is identical to ${first.mode}` : this.describe(first, one, at));
      if (!same) for (const side of [first, one]) this.point(side, at);
    }
    this.verdict.textContent = words.map((one) => one[0].toUpperCase() + one.slice(1)).join(". ") + ".";
  }

  describe(first, one, at) {
    const of = (column) => column.view.tokens[at] ? `“${shown(column.view.tokens[at].text)}”` : "its end";
    return `${one.mode} parts from ${first.mode} at token ${at + 1}: ${of(one)} in place of ${of(first)}`;
  }

  point(column, at) {
    const span = column.view.spans.find((one) => one.waneTokens.some((token) => token.index === at));
    span?.classList.add("parting");
  }
}
