/* theme.js - light or dark, before anything is painted: the visitor's choice of this browser, else the system's. Nothing else is kept there. */
(() => {
  const key = "wane-theme";
  const root = document.documentElement;
  const stored = (() => { try { return localStorage.getItem(key); } catch { return null; } })();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  window.waneTheme = {
    dark() {
      return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    },
    toggle() {
      root.dataset.theme = this.dark() ? "light" : "dark";
      try { localStorage.setItem(key, root.dataset.theme); } catch { /* a private window: for this visit only */ }
      root.dispatchEvent(new Event("wane-theme"));
    },
  };
})();
