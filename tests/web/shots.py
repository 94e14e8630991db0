"""Pictures of the live page with the default model, for docs/: shots.py FOLDER. Run by WANE_SHOTS=FOLDER tests/web/run.

With WANE_SHOTS_ALL set, every view at 360, 768 and 1440 pixels, light and dark, to be looked at.
"""
import os
import subprocess
import sys
import tempfile
import time

from playwright.sync_api import expect, sync_playwright

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from conftest import ARGUMENTS  # noqa: E402

# The second answer copies from the first: drafts beside what was computed.
QUESTIONS = ("Write two sentences about a lighthouse and the sea.", "Write the same two sentences once more, word for word.")


def start_server(folder):
    ready = os.path.join(folder, "port")
    wane = os.path.join(os.environ["WANE_BUILD"], "wane")
    # Always the certified head: on a busy machine the dense one is the faster for moments, and the picture would be of that.
    process = subprocess.Popen([wane, "serve", "--port", "0", "--ready-file", ready, "--request-modes", "off,legacy,wane",
                                "--slots", "3", "--context", "2048", "--head", "always"], stderr=subprocess.DEVNULL)
    while not os.path.exists(ready):
        if process.poll() is not None:
            raise SystemExit("shots: the server did not start")
        time.sleep(0.05)
    return process, f"http://127.0.0.1:{open(ready).read().strip()}"


def ask(page, question):
    page.fill("#prompt", question)
    page.press("#prompt", "Enter")
    page.locator(".turn").last.locator(".turn-tools").wait_for(timeout=120000)


def settle(page, mode):
    """Without chance, so that the picture is the same each time."""
    page.get_by_role("button", name="Settings").click()
    page.locator("#set-temperature").fill("0")
    page.locator(".pill", has_text=mode).first.click()
    page.keyboard.press("Escape")


def shoot(page, view):
    if view == "ask":
        settle(page, "off")
        for question in QUESTIONS:
            ask(page, question)
        page.locator(".answer .by-level2, .answer .by-exact").first.click()
    elif view == "compare":
        page.fill("#compare-tokens", "60")
        page.locator("#compare-run").click()
        expect(page.locator("#verdict")).not_to_be_empty(timeout=120000)
    elif view == "settings":
        page.get_by_role("button", name="Settings").click()
        page.locator(".ssp-key").first.scroll_into_view_if_needed()
    elif view == "watch":
        page.wait_for_timeout(2500)
    page.wait_for_timeout(300)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    every = bool(os.environ.get("WANE_SHOTS_ALL"))
    sizes = {360: 740, 768: 1024, 1440: 900} if every else {1280: 1000}
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        process, url = start_server(work)
        browser = playwright.chromium.launch(executable_path=os.environ["WANE_CHROMIUM"], args=ARGUMENTS)
        try:
            views = ("welcome", "ask", "compare", "settings", "watch") if every else ("ask", "compare", "watch")
            for view in views:
                for width, height in sizes.items():
                    for scheme in ("light", "dark") if every else ("light",):
                        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme,
                                                      reduced_motion="reduce", base_url=url)
                        page = context.new_page()
                        page.goto("/#" + (view if view in ("compare", "watch") else "ask"))
                        expect(page.locator("#model")).not_to_be_empty()
                        shoot(page, view)
                        name = f"page-{view}-{width}-{scheme}.png" if every else f"page-{view}.png"
                        page.screenshot(path=os.path.join(folder, name))
                        context.close()
        finally:
            browser.close()
            process.terminate()
            process.wait(timeout=60)


if __name__ == "__main__":
    main(sys.argv[1])
