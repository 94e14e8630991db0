"""One browser for all tests, a context of its own for each; servers as the API's tests start them."""
import mimetypes
import os
import sys

import pytest
from playwright.sync_api import expect, sync_playwright

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "api"))
from support import SLOW, start_scripted  # noqa: E402

# Chromium of its own accord asks hosts of its maker's; there is no network for that, and no wish.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]
expect.set_options(timeout=6000)
REPLIES = [
    {"match": "slow", "text": "one two three four five six seven eight nine ten " * 2, "delay_ms": 15},
    {"match": "words", "tokens": list(range(259, 267)) * 12, "delay_ms": 10},
    {"match": "long", "text": "All work and no play makes Jack a dull boy.\n" * 46},
    {"match": "accents", "text": "café naïve 東京"},
    {"match": "fail", "text": "hello there", "fail_at": 6},
    {"match": "", "text": "The sky is blue. Light scatters."},
]


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    """Starts a server on the scripted engine; all end with the session, and must end well."""
    servers = []

    def begin(**setup):
        folder = tmp_path_factory.mktemp("server")
        setup = {"pieces": ["Tides ", "rise ", "and ", "fall ", "twice ", "a ", "day, ", "unhurried. "], "replies": REPLIES, "context": 4096, "sequences": 3, "memo": 1 << 20, "max_tokens": 3000,
                 "request_modes": ["off", "legacy", "wane"], "quality": {"answers": 1}, **setup}
        servers.append(start_scripted(str(folder), "server", **setup))
        return servers[-1]

    yield begin
    for server in servers:
        status = server.terminate()
        server.process.stdout.close()
        assert status == 0, open(server.log).read()[-4000:]


@pytest.fixture(scope="session")
def server(start):
    return start()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=os.environ["WANE_CHROMIUM"], args=ARGUMENTS)
        yield made
        made.close()


class Page:
    """A page that is held to its own rules: no errors, and no request to anywhere but its server."""

    def __init__(self, browser, server, width=1280, height=860, **more):
        self.server = server
        self.context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce",
                                           base_url=server.url, accept_downloads=True, **more)
        self.context.set_default_timeout(6000 * SLOW)
        self.page = self.context.new_page()
        self.faults, self.requests = [], []
        if os.environ.get("WANE_WEB"):
            self.context.route("**/*", self.from_folder)
        self.page.on("console", self.hear)
        self.page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def from_folder(self, route):
        """For who works on the page: its files from a folder, with the policy that the program would send."""
        path = route.request.url.removeprefix(self.server.url).split("?")[0]
        name = "index.html" if path == "/" else path.removeprefix("/page/")
        file = os.path.join(os.environ["WANE_WEB"], name)
        if "/" in name or not os.path.isfile(file):
            route.fallback()
            return
        head = {"content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}
        route.fulfill(path=file, headers={**head, "content-type": mimetypes.guess_type(file)[0]})

    def hear(self, message):
        if message.type in ("error", "warning") and not getattr(self, "expected", None) in message.text.split():
            self.faults.append(message.text)

    def open(self, view="ask"):
        self.page.goto("/#" + view)
        self.page.locator("#model:not(:empty), #key-dialog[open]").first.wait_for(state="attached")
        return self.page

    def ask(self, text):
        self.page.fill("#prompt", text)
        self.page.press("#prompt", "Enter")

    def ask_all(self, text):
        self.ask(text)
        self.page.locator(".turn").last.locator(".turn-tools").wait_for()

    def close(self):
        self.context.close()
        away = [url for url in self.requests if not url.startswith((self.server.url, "blob:"))]
        assert not away, away
        assert not self.faults, self.faults


@pytest.fixture
def page_on(browser):
    pages = []

    def make(server, **more):
        pages.append(Page(browser, server, **more))
        return pages[-1]

    yield make
    for page in pages:
        page.close()


@pytest.fixture
def held(page_on, server):
    """A page on the common server."""
    return page_on(server)
