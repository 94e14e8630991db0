/* theme.js - light or dark, before anything is painted: the visitor's choice of this browser, else the system's. Nothing else is kept there. */
(() => {
  const key = "wane-theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = (() => { try { return localStorage.getItem(key); } catch { return null; } })();
  if (chosen !== "light" && chosen !== "dark") chosen = null;
  function put() {
    root.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
    root.dispatchEvent(new Event("wane-theme"));
  }
  put();
  system.addEventListener("change", put);
  window.waneTheme = {
    toggle() {
      chosen = root.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem(key, chosen); } catch { /* a private window: for this visit only */ }
      put();
    },
  };
})();
