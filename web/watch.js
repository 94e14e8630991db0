/* watch.js - the dashboard: the last minutes from the server's own samples, as they come; pause, window, export. */
import { ask, events, Refusal } from "./api.js";
import { Samples } from "./samples.js";
import { make, ms, number } from "./words.js";

const WIDE = 30; // samples over which times are ranked: a reply a second would else be its own percentile
const FRESH = 10000; // milliseconds after which the state is asked for again: parts, rollout, sides
const COLOURS = ["--series1", "--series2", "--series3", "--series4", "--series5", "--series6"];
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [1, 4], [12, 3]];
const rate = (name) => (s, row) => s.rate(row, name);
const before = (rows, i, count) => rows.slice(Math.max(0, i - count + 1), i + 1);
const share = (s, rows, part, whole) => {
  const all = whole.reduce((sum, one) => sum + s.sum(rows, one), 0);
  return all > 0 ? s.sum(rows, part) / all : null;
};
const perToken = (name) => (s, row, rows, i) => share(s, before(rows, i, 10), name, ["head_rows"]);
const ranked = (name, part) => (s, row, rows, i) => s.percentiles(before(rows, i, WIDE), name, [part])[0];
const STATES = ["state_normal", "state_locked", "state_explore", "state_protect"];
const stateShare = (name) => (s, row, rows, i) => {
  const part = share(s, before(rows, i, 10), "state_" + name, STATES);
  return part == null ? null : 100 * part;
};
const plain = (x) => number(x, Number.isInteger(x) || x >= 10 ? 0 : 1);

const CHARTS = [
  { title: "Tokens a second", about: "replies and prompts, all requests together", format: plain,
    series: [["reply", rate("reply_tokens")], ["prompt", rate("prompt_tokens")]] },
  { title: "Time to the first token", about: "replies that ended in the last 30 s", format: ms,
    series: [["median", ranked("ttft", 0.5)], ["95 %", ranked("ttft", 0.95)], ["99 %", ranked("ttft", 0.99)]] },
  { title: "Time of each further token", about: "replies that ended in the last 30 s", format: ms,
    series: [["median", ranked("tpot", 0.5)], ["95 %", ranked("tpot", 0.95)], ["99 %", ranked("tpot", 0.99)]] },
  { title: "Survivors a token", about: "what the certificate leaves of the vocabulary, last 10 s", format: plain,
    series: [["level 1", perToken("head_survivors1")], ["level 2", perToken("head_survivors2")], ["computed", perToken("head_computed")]] },
  { title: "Shortcuts a second", about: "tokens that cost less than a run of their own", format: plain,
    series: [["remembered", rate("memo_hits")], ["drafts accepted", rate("draft_accepted")], ["drafts proposed", rate("draft_proposed")],
      ["table hits", (s, row) => s.rate(row, "table_strict") + s.rate(row, "table_rank")]] },
  { title: "Gate", about: "rejected tokens and wakes by reason, a second", format: plain,
    series: [["rejected", rate("gate_rejected")], ["woke: doubt", rate("wake_doubt")], ["woke: revival", rate("wake_revival")],
      ["woke: forced", rate("wake_forced")], ["woke: always", rate("wake_always")]] },
  { title: "Governor", about: "share of steered tokens by state, last 10 s", format: (x) => `${Math.round(x)} %`, top: 100,
    series: ["normal", "locked", "explore", "protect"].map((one) => [one, stateShare(one)]) },
  { title: "Queue and slots", about: "requests that wait, and that run", format: plain,
    series: [["waiting", (s, row) => s.value(row, "queued")], ["running", (s, row) => s.value(row, "slots_busy")]] },
  { title: "KV cache in use", about: "of the sequences that hold something", format: (x) => `${Math.round(x)} %`, top: 100,
    series: [["used", (s, row) => (s.value(row, "kv_cells") > 0 ? 100 * s.value(row, "kv_held") / s.value(row, "kv_cells") : 0)]] },
  { title: "Divergence", about: "times that a shortcut was held against the plain path, and that it differed", format: plain,
    series: [["compared a second", rate("compared")], ["differed", (s, row) => s.value(row, "divergences")]] },
  { title: "Rollout", about: "the stage of each feature that is being brought in; 0: nobody has it", format: plain, shown: (state) => state.rollout != null,
    series: ["head", "table", "draft", "memo", "gate", "governor"].map((one) => [one, (s, row) => s.value(row, "rollout_" + one)]) },
];

const REACH = { none: () => "nobody has it", all: () => "everybody has it", lines: () => "by line of business",
  users: (share) => `${+(100 * share).toPrecision(3)} % of users`, requests: (share) => `${+(100 * share).toPrecision(3)} % of requests` };
const PHASES = { planned: "planned", running: "running", back: "stepped back", done: "done", aborted: "ended" };
const BARS = { hit_rate: "hits", divergence: "divergence", consistency: "consistency", consistency_drop: "drop of consistency" };
const reach = (one) => REACH[one.reach](one.share);
const short = (x) => String(+x.toPrecision(3));

/** Loads the charts' library once; false: this build has none. */
let library = null;
function loadLibrary() {
  library ??= new Promise((resolve) => {
    const style = make("link");
    Object.assign(style, { rel: "stylesheet", href: "/page/uplot.css" });
    const script = make("script");
    script.src = "/page/uplot.js";
    script.onload = () => resolve(true);
    script.onerror = () => resolve(false);
    document.head.append(style, script);
  });
  return library;
}

function save(name, type, text) {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export class Watch {
  constructor(onRefusal) {
    this.onRefusal = onRefusal;
    this.minutes = 15;
    this.paused = false;
    this.samples = null;
    this.notice = document.getElementById("watch-notice");
    this.tiles = document.getElementById("tiles");
    this.charts = CHARTS.map((chart) => this.frame(chart));
    document.getElementById("charts").append(...this.charts.map((one) => one.element));
    document.getElementById("watch-window").addEventListener("click", (event) => this.choose(event.target));
    document.getElementById("watch-pause").addEventListener("click", (event) => this.pause(event.target));
    document.getElementById("watch-csv").addEventListener("click", () => this.exported((s, rows) => save("wane.csv", "text/csv", s.csv(rows))));
    document.getElementById("watch-json").addEventListener("click", () => this.exported((s, rows) =>
      save("wane.json", "application/json", JSON.stringify({ fields: s.fields, buckets: s.buckets, samples: rows }))));
    document.documentElement.addEventListener("wane-theme", () => this.rebuild());
    addEventListener("resize", () => this.resize());
  }

  frame(chart) {
    const body = make("div", "plot");
    const legend = make("ul", "plot-legend");
    const marks = chart.series.map(([label], i) => {
      const key = make("i", "key key" + (i + 1));
      const value = make("b", "", "–");
      legend.append(make("li", "", key, make("span", "", label), value));
      return value;
    });
    const element = make("figure", "chart", make("figcaption", "", make("h2", "", chart.title), make("p", "small muted", chart.about)), body, legend);
    return { ...chart, element, body, marks, plot: null };
  }

  exported(give) {
    if (this.samples) give(this.samples, this.samples.last(this.minutes));
  }

  choose(button) {
    if (!button.dataset.minutes) return;
    this.minutes = Number(button.dataset.minutes);
    for (const one of button.parentNode.children) one.setAttribute("aria-pressed", String(one === button));
    document.getElementById("watch-span").textContent = this.minutes === 1 ? "minute" : `${this.minutes} minutes`;
    this.draw();
  }

  pause(button) {
    this.paused = !this.paused;
    button.setAttribute("aria-pressed", String(this.paused));
    button.textContent = this.paused ? "Go on" : "Pause";
    if (!this.paused) this.draw();
  }

  /** While it is looked at: the state once, then samples as they come; again after a moment when the stream ends. */
  async start() {
    if (this.stop) return;
    const control = new AbortController();
    this.stop = () => { control.abort(); this.stop = null; };
    if (!(await loadLibrary())) this.say("This build has no charts: there was no npm to fetch them with. Run scripts/page, and build again. Numbers and export work.");
    while (!control.signal.aborted) {
      try {
        await this.read(control.signal);
      } catch (error) {
        if (error.name === "AbortError") return;
        if (error instanceof Refusal) { this.onRefusal(error); this.stop?.(); return; }
      }
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }

  async read(signal) {
    const state = await (await ask("/v1/wane/state", { signal })).json();
    this.samples = new Samples(state, state.samples);
    this.state = state;
    this.drawState();
    this.draw();
    const stream = await ask("/v1/wane/events", { signal });
    let fresh = performance.now();
    for await (const { event, data } of events(stream)) {
      if (event !== "sample") continue;
      const { row } = JSON.parse(data);
      const added = this.samples.add(row);
      const moved = Object.entries(this.state.rollout ?? {}).some(([name, { stage }]) => this.samples.value(row, "rollout_" + name) !== stage);
      if (moved || performance.now() - fresh > FRESH) {
        fresh = performance.now();
        this.state = await (await ask("/v1/wane/state?samples=0", { signal })).json();
        if (!this.paused) this.drawState();
      }
      if (added && !this.paused) this.draw();
    }
  }

  say(text) {
    this.notice.textContent = text;
    this.notice.hidden = !text;
  }

  drawState() {
    const { parts, rollout, ab } = this.state;
    const put = (id, rows) => document.getElementById(id).replaceChildren(...rows.map(([name, on, ...lines]) =>
      make("div", on ? "on" : "off", make("dt", "", name), ...lines.filter(Boolean).map((line) => make("dd", "", line)))));
    put("parts", Object.entries(parts).map(([name, { on, reason }]) => [name, on, on ? "at work" : `off: ${reason}`]));
    put("rollout", Object.entries(rollout ?? {}).map(([name, one]) => [name, one.stage > 0, `${this.stageOf(one)}: ${reach(one)}`,
      `${number(one.requests_on)} requests with it, ${number(one.requests_off)} without`, this.barsOf(one)]));
    put("sides", ab ? [["with the governor", "on"], ["without it", "off"]].map(([name, side]) => this.sideOf(name, ab[side], side === "on" ? ab.share : 1 - ab.share)) : []);
    document.getElementById("rollout-part").hidden = rollout == null;
    document.getElementById("sides-part").hidden = ab == null;
    for (const chart of this.charts) chart.element.hidden = chart.shown != null && !chart.shown(this.state);
  }

  stageOf(one) {
    return one.phase === "done" || one.stage === 0 ? PHASES[one.phase] : `${PHASES[one.phase]}, stage ${one.stage} of ${one.stages}`;
  }

  barsOf(one) {
    const known = Object.entries(one.bars).filter(([, { value, bar }]) => value != null || bar != null);
    return known.map(([name, { value, bar }]) => `${BARS[name]} ${value == null ? "not known" : short(value)}${bar == null ? "" : `, bar ${short(bar)}`}`).join("; ");
  }

  sideOf(name, side, share) {
    const part = (count) => (side.replies ? `${(100 * count / side.replies).toFixed(1)} %` : "–");
    return [name, true, `${Math.round(100 * share)} % of those who ask; ${number(side.replies)} replies so far`, `went round in a loop: ${part(side.loops)}; ended by the fuse: ${part(side.fused)}`];
  }

  /** A feature that is on its way, and how far it is. */
  rolloutTile() {
    const all = Object.entries(this.state.rollout ?? {});
    if (!all.length) return ["Rollout", "–", "none is under way"];
    const [name, one] = ["running", "back", "planned"].map((phase) => all.find(([, each]) => each.phase === phase)).find(Boolean) ?? all[0];
    const more = all.length > 1 ? `, and ${all.length - 1} more` : "";
    return ["Rollout", one.phase === "done" ? "done" : one.stage > 0 ? `${one.stage} of ${one.stages}` : PHASES[one.phase], `${name}${more}: ${reach(one)}`];
  }

  draw() {
    if (!this.samples) return;
    const rows = this.samples.last(this.minutes);
    this.drawTiles(rows);
    for (const chart of this.charts) if (!chart.element.hidden) this.drawChart(chart, rows);
  }

  drawTiles(rows) {
    const s = this.samples, recent = rows.slice(-5), last = rows.at(-1);
    const [first50, first95] = s.percentiles(rows, "ttft", [0.5, 0.95]), [each50, each95] = s.percentiles(rows, "tpot", [0.5, 0.95]);
    const seconds = recent.reduce((sum, row) => sum + row[1], 0);
    const busy = rows.filter((row) => s.value(row, "reply_tokens") > 0);
    const peak = busy.reduce((most, row) => Math.max(most, s.rate(row, "reply_tokens")), 0);
    const cells = last ? s.value(last, "kv_cells") : 0;
    const since = s.rows.filter((row) => row[0] > this.state.at_ms);
    const checks = this.state.now.compared + s.sum(since, "compared"), wrong = this.state.now.divergences + s.sum(since, "divergences");
    const lost = s.sum(rows, "refused") + s.sum(rows, "failed");
    const values = [
      ["Tokens a second", seconds ? number(s.sum(recent, "reply_tokens") / seconds, 0) : "–", `at most ${number(peak, 0)}`],
      ["First token", ms(first50), `95 %: ${ms(first95)}`],
      ["Each further", ms(each50), `95 %: ${ms(each95)}`],
      ["Replies", number(s.sum(rows, "completed")), lost ? `${number(lost)} refused or failed` : "all answered"],
      ["Running", last ? `${s.value(last, "slots_busy")} of ${this.state.slots}` : "–", last ? `${s.value(last, "queued")} waiting` : ""],
      ["KV cache", cells ? `${Math.round(100 * s.value(last, "kv_held") / cells)} %` : "–", cells ? `of ${number(cells)} cells` : "nothing held"],
      ["Divergences", number(wrong), checks || wrong ? `in ${number(checks)} check${checks === 1 ? "" : "s"}` : "no checks yet"],
      this.rolloutTile(),
    ];
    if (this.tiles.children.length !== values.length)
      this.tiles.replaceChildren(...values.map(() => make("div", "tile", make("dt"), make("dd", "tile-value"), make("dd", "tile-more"))));
    values.forEach(([name, value, more], i) => {
      const [dt, dd, small] = this.tiles.children[i].children;
      dt.textContent = name;
      dd.textContent = value;
      small.textContent = more;
    });
  }

  drawChart(chart, rows) {
    const s = this.samples;
    const data = [rows.map((row) => row[0] / 1000), ...chart.series.map(([, give]) => rows.map((row, i) => give(s, row, rows, i)))];
    chart.data = data;
    this.drawMarks(chart, rows.length - 1);
    const last = data[0].at(-1) ?? 0;
    const span = [Math.max(last - 60 * this.minutes, Math.min(data[0][0] ?? 0, last - 60)), last];
    chart.span = span;
    const some = data.slice(1).some((list) => list.some((x) => x > 0));
    chart.element.classList.toggle("empty", !some);
    chart.body.setAttribute("role", "img");
    chart.body.setAttribute("aria-label", this.describe(chart));
    if (!window.uPlot) return;
    if (!chart.plot) chart.plot = this.plot(chart);
    chart.plot.setData(data, false);
    chart.plot.setScale("x", { min: span[0], max: span[1] });
  }

  clock(t, seconds) {
    return new Date(1000 * t).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(seconds ? { second: "2-digit" } : {}) });
  }

  describe(chart) {
    const words = chart.series.map(([label], i) => {
      const list = chart.data[i + 1].filter((x) => x != null);
      return list.length ? `${label}: now ${chart.format(list.at(-1))}, at most ${chart.format(Math.max(...list))}` : `${label}: nothing yet`;
    });
    return `${chart.title}. ${words.join("; ")}.`;
  }

  drawMarks(chart, at) {
    chart.marks.forEach((mark, i) => {
      const value = chart.data[i + 1][at];
      mark.textContent = value == null ? "–" : chart.format(value);
    });
  }

  plot(chart) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const options = {
      width: chart.body.clientWidth || 300, height: 150, legend: { show: false }, padding: [8, 6, 0, 0],
      cursor: { sync: { key: "wane" }, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { time: true, range: () => chart.span },
        y: { range: (u, low, high) => [0, chart.top ?? Math.max(high * 1.15, 1)] } },
      axes: [{ ...axis, size: 24, space: 70, values: (u, ticks) => ticks.map((t) => this.clock(t, chart.span[1] - chart.span[0] < 240)) },
        { ...axis, size: 52, space: 34, values: (u, ticks) => ticks.map((t) => chart.format(t)) }],
      series: [{}, ...chart.series.map(([label], i) => ({
        label, stroke: colour(COLOURS[i]), width: 1.75, dash: DASHES[i], spanGaps: false, points: { show: false },
        fill: i === 0 ? colour("--series1-fill") : undefined }))],
      hooks: { setCursor: [(u) => this.drawMarks(chart, u.cursor.idx ?? chart.data[0].length - 1)] },
    };
    return new window.uPlot(options, chart.data, chart.body);
  }

  resize() {
    for (const { plot, body } of this.charts) plot?.setSize({ width: body.clientWidth, height: 150 });
  }

  rebuild() {
    for (const chart of this.charts) {
      chart.plot?.destroy();
      chart.plot = null;
    }
    this.draw();
  }
}
