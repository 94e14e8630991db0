/* ask.js - the conversation: one turn a question, streamed, tinted, stopped, asked again, copied. */
import { reply, Refusal } from "./api.js";
import { TokenView, mixBar, drawDetail, addVote } from "./tokens.js";
import { make, ms, percent } from "./words.js";

const NEAR_END = 90; // pixels: nearer than that, the text is followed

const FINISH = {
  stop: "", length: "cut at the token limit", content_filter: "ended by the fuse: it ran in a loop", stopped: "stopped", failed: "failed",
};

export class Ask {
  constructor(settings, onRefusal) {
    this.settings = settings;
    this.onRefusal = onRefusal;
    this.turns = [];
    this.running = null;
    this.talk = document.getElementById("talk");
    this.list = document.getElementById("turns");
    this.welcome = document.getElementById("welcome");
    this.prompt = document.getElementById("prompt");
    this.send = document.getElementById("send");
    this.detail = document.getElementById("detail");
    this.side = document.getElementById("side");
    drawDetail(this.detail, null);
    this.following = true;
    this.talk.addEventListener("scroll", () => {
      this.following = this.talk.scrollHeight - this.talk.scrollTop - this.talk.clientHeight < NEAR_END;
    });
    document.getElementById("composer").addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
    document.getElementById("new-button").addEventListener("click", () => this.clear());
    this.prompt.addEventListener("input", () => this.fit());
    this.prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.running) this.submit();
    });
    document.getElementById("examples").addEventListener("click", (event) => {
      if (event.target.tagName !== "BUTTON") return;
      this.prompt.value = event.target.textContent;
      this.submit();
    });
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") this.closeDetail(); });
  }

  fit() {
    this.prompt.style.height = "auto";
    this.prompt.style.height = Math.min(this.prompt.scrollHeight, 200) + "px";
  }

  clear() {
    this.running?.abort();
    this.turns = [];
    this.list.replaceChildren();
    this.welcome.classList.remove("past");
    drawDetail(this.detail, null);
    this.closeDetail();
    this.prompt.focus();
  }

  submit() {
    if (this.running) {
      this.running.abort();
      return;
    }
    const text = this.prompt.value.trim();
    if (!text) return;
    this.prompt.value = "";
    this.fit();
    this.welcome.classList.add("past");
    const turn = this.addTurn(text);
    this.run(turn);
  }

  addTurn(question) {
    const turn = { question, answer: "" };
    turn.text = make("div", "answer");
    turn.stats = make("div", "stats");
    turn.row = make("li", "turn", make("h2", "question", question), turn.stats, turn.text);
    this.turns.push(turn);
    this.list.append(turn.row);
    return turn;
  }

  /** What was said before this turn, and its question. */
  messages(turn) {
    const before = this.turns.slice(0, this.turns.indexOf(turn)).filter((one) => one.answer);
    return [...before.flatMap((one) => [{ role: "user", content: one.question }, { role: "assistant", content: one.answer }]),
      { role: "user", content: turn.question }];
  }

  /** The end stays in sight while it is there; who scrolls back reads on undisturbed. */
  follow() {
    if (this.following) this.talk.scrollTop = this.talk.scrollHeight;
  }

  async run(turn) {
    const fresh = make("div", "answer");
    turn.text.replaceWith(fresh);
    turn.text = fresh;
    const view = new TokenView(turn.text, (tokens, pinned) => this.show(view, tokens, pinned));
    this.following = true;
    view.onDraw = () => this.follow();
    turn.view = view;
    turn.row.classList.add("running");
    turn.row.setAttribute("aria-busy", "true");
    turn.stats.replaceChildren(make("span", "muted", "waiting for the first token …"));
    this.follow();
    this.running = new AbortController();
    this.send.textContent = "Stop";
    let finish = "failed", result = null, began = performance.now();
    const onToken = (token, text) => {
      if (!view.tokens.length) turn.stats.replaceChildren(make("span", "muted", "first token after " + ms(performance.now() - began)));
      view.add(token, text);
    };
    try {
      result = await reply(this.settings.request(this.messages(turn)), { signal: this.running.signal, onToken });
      finish = result.finish;
    } catch (error) {
      if (error.name === "AbortError") finish = "stopped";
      else await this.fail(turn, error);
    }
    await view.finish();
    this.end(turn, finish, result);
  }

  async fail(turn, error) {
    const text = error instanceof Refusal ? error.message : "The connection to the server was lost.";
    await turn.view.finish();
    turn.text.append(make("p", "error", text));
    if (error instanceof Refusal) this.onRefusal(error);
  }

  end(turn, finish, result) {
    const { view } = turn;
    turn.answer = view.text;
    turn.row.classList.remove("running");
    turn.row.removeAttribute("aria-busy");
    this.running = null;
    this.send.textContent = "Ask";
    const count = view.tokens.length;
    const words = [`${count} token${count === 1 ? "" : "s"}`];
    if (result && count > 1) words.push(`${((count - 1) / ((result.wholeMs - result.firstMs) / 1000 || 1)).toFixed(0)}/s`, `first after ${ms(result.firstMs)}`);
    if (count) words.push(`${percent(view.spared())} without the full head`);
    if (FINISH[finish]) words.push(FINISH[finish]);
    turn.answer = addVote(turn.text, result) ?? turn.answer;
    document.getElementById("said").textContent = `The reply is there: ${turn.answer}`;
    turn.stats.replaceChildren(...[count ? mixBar(view.counts) : null, make("span", "muted", words.join(" · ")), this.tools(turn)].filter(Boolean));
  }

  tools(turn) {
    const copy = make("button", "quiet", "Copy");
    copy.type = "button";
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(turn.answer);
        copy.textContent = "Copied";
      } catch {
        copy.textContent = "Not allowed here";
      }
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    });
    const retry = make("button", "quiet", "Again");
    retry.type = "button";
    retry.addEventListener("click", () => {
      if (this.running) return;
      for (const later of this.turns.splice(this.turns.indexOf(turn) + 1)) later.row.remove();
      this.run(turn);
    });
    return make("span", "turn-tools", copy, retry);
  }

  show(view, tokens, pinned) {
    if (this.lastView && this.lastView !== view) this.lastView.blur();
    this.lastView = view;
    drawDetail(this.detail, tokens);
    this.detail.setAttribute("aria-live", "polite");
    if (pinned) {
      this.side.classList.add("open");
      this.talk.classList.add("shares"); // a phone: the piece stays in sight above the sheet
      if (matchMedia("(max-width: 719px)").matches) view.spans[view.active].scrollIntoView({ block: "start" });
      if (!this.closer) {
        this.closer = make("button", "icon side-close", "✕");
        this.closer.type = "button";
        this.closer.setAttribute("aria-label", "Close");
        this.closer.addEventListener("click", () => this.closeDetail());
        this.side.append(this.closer);
      }
    }
  }

  closeDetail() {
    this.side.classList.remove("open");
    this.talk.classList.remove("shares");
  }
}
