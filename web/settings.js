/* settings.js - what a request asks for: sampling, mode, system text, and the SSP line put together from explained values. */
import { SSP, make } from "./words.js";

const NUMBERS = [
  ["temperature", "Temperature", 0, 2, 0.05, "0 takes the best token every time; more wanders."],
  ["top_p", "Top-p", 0, 1, 0.01, "Only the best tokens that together reach this share."],
  ["top_k", "Top-k", 0, 1000, 1, "Only so many of the best tokens; 0: all."],
  ["min_p", "Min-p", 0, 1, 0.01, "Only tokens with at least this share of the best one’s."],
  ["repeat_penalty", "Repeat penalty", 0.5, 2, 0.05, "Above 1: what was said is said again less gladly."],
  ["max_tokens", "Tokens at most", 1, 8192, 1, "The reply ends there."],
  ["seed", "Seed", 0, 4294967295, 1, "The same seed draws the same reply; empty: another each time."],
];

const MODES = {
  off: "the plain engine’s output",
  legacy: "correction on every token, as the originals did",
  wane: "gate and governor, correction where something asks for it",
};

export class Settings {
  constructor(dialog, body, onChange) {
    this.dialog = dialog;
    this.body = body;
    this.onChange = onChange;
    this.server = { defaults: {}, mode: "off", request_modes: ["off"] };
    this.value = { system: "", mode: "", ssp: {} };
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    dialog.querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); dialog.close(); });
    dialog.querySelector("#settings-close").addEventListener("click", () => dialog.close());
    dialog.querySelector("#settings-reset").addEventListener("click", () => { this.value = { system: "", mode: "", ssp: {} }; this.draw(); });
  }

  know(state) {
    this.server = state;
    this.draw();
  }

  open() {
    this.dialog.showModal();
  }

  set(name, value) {
    if (value === "" || value == null) delete this.value[name];
    else this.value[name] = value;
    this.changed();
  }

  changed() {
    const line = this.sspLine();
    this.preview.textContent = line || "no SSP";
    this.preview.classList.toggle("muted", !line);
    this.onChange?.(this.summary());
  }

  sspLine() {
    const pairs = SSP.filter(({ key }) => this.value.ssp[key]).map(({ key }) => `${key}=${this.value.ssp[key]}`);
    return pairs.length ? "SSP:" + pairs.join(";") : "";
  }

  /** What differs from the server's settings, for the composer's line. */
  summary() {
    const parts = NUMBERS.filter(([name]) => name in this.value).map(([name, title]) => `${title.toLowerCase()} ${this.value[name]}`);
    if (this.value.mode) parts.push("mode " + this.value.mode);
    if (this.sspLine()) parts.push("SSP");
    if (this.value.system) parts.push("system text");
    return parts.join(" · ");
  }

  /** The request's fields, and the messages with the system text before them. */
  request(messages) {
    const system = [this.sspLine(), this.value.system].filter(Boolean).join("\n");
    const request = { messages: system ? [{ role: "system", content: system }, ...messages] : messages };
    for (const [name] of NUMBERS) if (name in this.value) request[name] = this.value[name];
    if (this.value.mode && !this.sspLine()) request.sfcl_mode = this.value.mode;
    return request;
  }

  draw() {
    this.preview = make("code", "ssp-line");
    this.body.replaceChildren(this.sampling(), this.quality(), this.systemText(), this.ssp());
    this.changed();
  }

  group(title, about, ...children) {
    const legend = make("legend", "", title);
    return make("fieldset", "group", legend, about && make("p", "small muted", about), ...children);
  }

  sampling() {
    const rows = NUMBERS.map(([name, title, low, high, step, about]) => {
      const input = make("input");
      Object.assign(input, { type: "number", min: low, max: high, step: "any", inputMode: step < 1 ? "decimal" : "numeric", id: "set-" + name });
      input.placeholder = this.server.defaults[name] == null ? "random" : String(+this.server.defaults[name].toPrecision(4));
      input.value = this.value[name] ?? "";
      input.setAttribute("aria-describedby", `set-${name}-about`);
      input.addEventListener("input", () => {
        const number = Number(input.value);
        const fine = input.value !== "" && number >= low && number <= high && (step < 1 || Number.isInteger(number));
        input.setAttribute("aria-invalid", String(input.value !== "" && !fine));
        this.set(name, fine ? number : "");
      });
      const note = make("span", "small muted", about);
      note.id = `set-${name}-about`;
      const label = make("label", "", title);
      label.htmlFor = input.id;
      return make("div", "number-row", label, input, note);
    });
    return this.group("Sampling", "An empty field takes the server’s value, which it shows.", ...rows);
  }

  pills(name, values, chosen, allowed, onPick) {
    const row = make("div", "pills");
    for (const [value, title] of values) {
      const input = make("input");
      Object.assign(input, { type: "radio", name, value, checked: value === chosen, disabled: !allowed(value) });
      input.addEventListener("change", () => onPick(value));
      row.append(make("label", "pill", input, make("span", "", title)));
    }
    return row;
  }

  quality() {
    const allowed = (mode) => mode === "" || this.server.request_modes.includes(mode);
    const about = make("p", "small muted");
    const say = (mode) => { about.textContent = mode ? `${mode}: ${MODES[mode]}.` : `The server’s own mode, ${this.server.mode}: ${MODES[this.server.mode]}.`; };
    say(this.value.mode);
    const values = [["", "server’s"], ["off", "off"], ["legacy", "legacy"], ["wane", "wane"]];
    const closed = Object.keys(MODES).some((mode) => !allowed(mode));
    return this.group("Mode", null, this.pills("mode", values, this.value.mode || "", allowed, (mode) => { say(mode); this.set("mode", mode); }), about,
      closed ? make("p", "small muted", "To choose others here, start the server with ", make("code", "", "--request-modes off,legacy,wane"), ".") : null);
  }

  systemText() {
    const area = make("textarea");
    Object.assign(area, { rows: 3, value: this.value.system, id: "set-system", placeholder: "You are a careful assistant." });
    area.addEventListener("input", () => this.set("system", area.value));
    const label = make("label", "unseen", "System text");
    label.htmlFor = area.id;
    return this.group("System text", null, label, area);
  }

  ssp() {
    const allowed = this.server.request_modes.includes("wane");
    const parts = SSP.map(({ key, title, about, values }) => {
      const says = make("p", "ssp-says small");
      const say = (value) => { says.textContent = value ? values[value] : about; says.classList.toggle("muted", !value); };
      say(this.value.ssp[key]);
      const list = [["", "–"], ...Object.keys(values).map((value) => [value, value])];
      const row = this.pills("ssp-" + key, list, this.value.ssp[key] || "", () => allowed, (value) => {
        this.value.ssp[key] = value;
        say(value);
        this.changed();
      });
      const inner = make("fieldset", "ssp-key", make("legend", "", title), row, says);
      return inner;
    });
    return this.group("Structured system instruction", allowed ? "One line that sets the policy of a request; it is taken out before the model sees the text." :
      "It is carried out in mode wane, which this server lets no request choose: --request-modes off,legacy,wane.", ...parts,
    make("p", "ssp-preview", this.preview));
  }
}
