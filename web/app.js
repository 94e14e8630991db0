/* app.js - puts the page together: views, key, theme, what the server says of itself. */
import { ask, hasKey, setKey, Refusal } from "./api.js";
import { drawLegend } from "./tokens.js";
import { Settings } from "./settings.js";
import { Ask } from "./ask.js";
import { Compare } from "./compare.js";
import { Watch } from "./watch.js";

const $ = (id) => document.getElementById(id);
const TITLES = { ask: "wane", compare: "Compare · wane", watch: "Watch · wane" };

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function askForKey(text) {
  setKey("");
  $("key-error").textContent = text;
  $("key-button").hidden = false;
  if (!$("key-dialog").open) $("key-dialog").showModal();
  $("key-input").focus();
}

function onRefusal(error) {
  if (error.status === 401) askForKey(hasKey() ? "The server does not know this key." : "");
}

const settings = new Settings($("settings"), $("settings-body"), (summary) => { $("composer-note").textContent = summary; });
const views = { ask: new Ask(settings, onRefusal), compare: new Compare(onRefusal), watch: new Watch(onRefusal) };

async function knowServer() {
  try {
    const state = await (await ask("/v1/wane/state?samples=0")).json();
    $("model").textContent = state.model.name;
    $("model").title = `${state.model.description}, wane ${state.version}`;
    settings.know(state);
    views.compare.know(state);
    notice("");
    if (hasKey()) $("key-button").hidden = false;
    return true;
  } catch (error) {
    if (error instanceof Refusal) onRefusal(error);
    if (error.status !== 401) notice(error instanceof Refusal ? error.message : "The server does not answer. The page tries again.");
    return false;
  }
}

async function keepTrying() {
  while (!(await knowServer()) && !$("key-dialog").open) await new Promise((resolve) => setTimeout(resolve, 3000));
}

function show() {
  const wanted = location.hash.slice(1);
  if (wanted === "main") return;
  const name = wanted in TITLES ? wanted : "ask";
  for (const one of Object.keys(TITLES)) $("view-" + one).hidden = one !== name;
  for (const link of document.querySelectorAll(".views a")) {
    if (link.hash === "#" + name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = TITLES[name];
  document.body.dataset.view = name;
  if (name === "watch") views.watch.start();
  else views.watch.stop?.();
}

drawLegend($("legend"));
settings.draw();
$("settings-button").addEventListener("click", () => settings.open());
$("theme-button").addEventListener("click", () => window.waneTheme.toggle());
$("key-button").addEventListener("click", () => askForKey(""));
$("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  setKey($("key-input").value);
  $("key-input").value = "";
  $("key-dialog").close();
  if ((await knowServer()) && document.body.dataset.view === "watch") views.watch.start();
});
addEventListener("hashchange", () => { show(); $("main").focus({ preventScroll: true }); scrollTo(0, 0); });
show();
keepTrying();
