"""The live page in a browser: what a visitor does, and what the page promises of itself."""
import csv
import io
import json
import os

import pytest
from playwright.sync_api import expect

from support import eventually
from test_events import check

AXE = open(os.environ["WANE_AXE"], encoding="utf-8").read() if os.environ.get("WANE_AXE") else None


def texts(page, selector):
    return page.locator(selector).all_text_contents()


def answer(page):
    return page.locator(".turn").last.locator(".answer")


def test_ask_stream_hover(held):
    page = held.open()
    expect(page.locator("h1").first).to_have_text("See how every token was decided.")
    held.ask_all("Why is the sky blue?")
    expect(answer(page)).to_have_text("The sky is blue. Light scatters.")
    tokens = answer(page).locator(".t")
    assert tokens.count() == 32  # a byte a token
    assert "by-dense" in tokens.first.get_attribute("class")
    expect(page.locator(".turn .stats")).to_contain_text("32 tokens")
    tokens.nth(3).hover()
    detail = page.locator("#detail")
    expect(detail).to_contain_text("token")
    expect(detail).to_contain_text("Full head")
    assert detail.locator(".best li").count() == 5
    expect(detail.locator(".best .chosen")).to_have_count(1)
    # The same by keyboard, from the reply's one stop.
    answer(page).focus()
    page.keyboard.press("Home")
    expect(detail).to_contain_text("token 1")
    page.keyboard.press("ArrowRight")
    expect(detail).to_contain_text("token 2")
    # Again: the memo has it now, and says so.
    page.get_by_role("button", name="Again").click()
    page.locator(".turn .turn-tools").wait_for()
    expect(answer(page)).to_have_text("The sky is blue. Light scatters.")
    assert "by-memo" in answer(page).locator(".t").last.get_attribute("class")


def test_characters_over_tokens_and_held_text(held):
    page = held.open()
    held.ask_all("accents please")
    expect(answer(page)).to_have_text("café naïve 東京")
    pieces = texts(page, ".answer .t")
    assert "é" in pieces and "東" in pieces and not any("\ufffd" in one for one in pieces)


def test_conversation_settings_and_ssp(held):
    page = held.open()
    bodies = []
    page.on("request", lambda request: bodies.append(request.post_data_json) if request.method == "POST" else None)
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Temperature").last.fill("0")
    page.get_by_label("Seed").last.fill("11")
    page.locator("#set-system").fill("Be short.")
    page.get_by_role("radio", name="legal").check()
    expect(page.locator(".ssp-key").filter(has_text="Domain").locator(".ssp-says")).to_contain_text("1.3 times the odds")
    page.locator(".ssp-key").filter(has_text="Fallback").get_by_role("radio", name="none").check()
    expect(page.locator(".ssp-line")).to_have_text("SSP:domain=legal;fallback=none")
    page.get_by_role("button", name="Done").click()
    held.ask_all("first")
    held.ask_all("second")
    first, second = bodies
    assert first["temperature"] == 0 and first["seed"] == 11 and "top_p" not in first
    assert first["messages"][0] == {"role": "system", "content": "SSP:domain=legal;fallback=none\nBe short."}
    assert [one["role"] for one in second["messages"]] == ["system", "user", "assistant", "user"]
    page.get_by_role("button", name="New").click()
    assert page.locator(".turn").count() == 0
    expect(page.locator("#examples")).to_be_visible()


def test_stop_and_reload_free_the_slot(held):
    page = held.open()
    held.ask("slow one")
    expect(answer(page)).to_contain_text("two")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".turn .stats")).to_contain_text("stopped")
    held.server.idle()
    held.ask("slow two")
    expect(answer(page)).to_contain_text("two")
    page.reload()
    held.server.idle()
    expect(page.locator("#examples")).to_be_visible()


def test_a_failing_reply_says_why(held):
    page = held.open()
    held.ask_all("fail now")
    expect(answer(page).locator(".error")).to_contain_text("failed")
    assert answer(page).text_content().startswith("hello")  # what came stays, and stands before the reason
    page.get_by_role("button", name="New").click()
    held.ask_all("and on")  # the next one works
    expect(answer(page)).to_contain_text("The sky")


def test_copy(held):
    held.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = held.open()
    held.ask_all("Copy me")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "The sky is blue. Light scatters."


def test_key(start, page_on, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ann home swordfish-and-more-letters\n")
    keys.chmod(0o600)
    held = page_on(start(key_file=str(keys)))
    held.expected = "401"
    page = held.open("watch")
    dialog = page.locator("#key-dialog")
    expect(dialog).to_be_visible()
    page.fill("#key-input", "wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#key-error")).to_contain_text("does not know this key")
    page.fill("#key-input", "swordfish-and-more-letters")
    page.keyboard.press("Enter")
    expect(page.locator("#model")).not_to_have_text("")
    expect(dialog).to_be_hidden()
    expect(page.locator("#tiles .tile")).to_have_count(8)  # the dashboard began by itself
    assert "swordfish" not in page.url
    assert "swordfish" not in page.evaluate("JSON.stringify({...localStorage}) + document.cookie")
    assert not any("swordfish" in url for url in held.requests)
    page.reload()
    expect(page.locator("#model")).not_to_have_text("")  # the tab still has it
    expect(dialog).to_be_hidden()


def test_side_by_side(held):
    page = held.open("compare")
    page.fill("#compare-temperature", "0")
    page.locator("#compare-run").click()
    expect(page.locator(".column .badge.same")).to_have_count(2)
    expect(page.locator("#verdict")).to_have_text("Legacy is identical to off. Wane is identical to off.")
    assert texts(page, ".column .answer") == ["The sky is blue. Light scatters."] * 3
    assert page.evaluate("""async () => {
        const {parting} = await import('/page/compare.js');
        const of = (text) => [...text].map((one) => ({id: one}));
        return [parting(of('abc'), of('abc')), parting(of('abc'), of('abd')), parting(of('ab'), of('abc')), parting([], [])];
    }""") == [-1, 2, 2, -1]


def test_first_difference_is_marked(held):
    page = held.open("compare")

    def answer_otherwise(route):  # what another model's correction might do
        body = route.request.post_data_json
        reply = route.fetch()
        text = reply.text()
        if body["sfcl_mode"] == "wane":
            text = text.replace('"id":98,"text":"b","by"', '"id":99,"text":"c","by"')
        route.fulfill(response=reply, body=text)

    page.route("**/v1/chat/completions", answer_otherwise)
    page.fill("#compare-temperature", "0")
    page.locator("#compare-run").click()
    expect(page.locator(".badge.other")).to_have_text("≠ from token 12")
    expect(page.locator("#verdict")).to_contain_text("Wane parts from off at token 12: “c” in place of “b”")
    expect(page.locator(".parting")).to_have_count(2)
    page.unroute_all()


def test_modes_that_are_closed(start, page_on):
    held = page_on(start(request_modes=[]))
    page = held.open("compare")
    expect(page.locator(".column").nth(1)).to_contain_text("--request-modes off,legacy,wane")
    page.fill("#compare-temperature", "0")
    page.locator("#compare-run").click()
    expect(page.locator(".column .answer").first).to_have_text("The sky is blue. Light scatters.")


def test_dashboard(held):
    held.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "for the chart"}]})
    page = held.open("watch")
    expect(page.locator(".chart:visible")).to_have_count(10)  # without a rollout
    expect(page.locator(".tile-value").nth(1)).to_contain_text("s")  # a time, in ms or µs
    expect(page.locator("#parts .on dt").first).to_be_attached()
    if page.evaluate("fetch('/page/uplot.js').then((x) => x.ok)"):
        expect(page.locator(".chart:visible canvas")).to_have_count(10)
    page.get_by_role("button", name="5 min", exact=True).click()
    expect(page.locator("#watch-title")).to_have_text("The last 5 minutes")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Go on")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(open(download.value.path()).read())))
    assert sum(float(row["reply_tokens"]) for row in rows) >= 33
    assert any(row["ttft_p50_ms"] for row in rows)
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    whole = json.load(open(download.value.path()))
    assert all(len(row) == len(whole["fields"]) for row in whole["samples"])


def test_dashboard_shows_a_rollout(start, page_on, tmp_path):
    """Each stage as it comes, and nothing of it where there is none."""
    plan = tmp_path / "rollout"
    plan.write_text(json.dumps({"auto": False, "features": {"memo": {"stages": [{"users": 0.5}, {"all": True}]}, "draft": {"stages": [{"share": 0.01}, {"all": True}]}}}))
    server = start(rollout=str(plan))
    held = page_on(server)
    page = held.open("watch")
    tile = page.locator(".tile").last
    expect(tile).to_contain_text("planned")
    expect(page.locator("#rollout")).to_contain_text("draftplanned: nobody has it")
    assert server.post("/v1/wane/rollout", {"do": "start", "feature": "memo"}).status == 200
    expect(tile).to_contain_text("1 of 2")
    expect(tile).to_contain_text("memo, and 1 more: 50 % of users")
    for i in range(8):
        server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "rolled"}], "user": f"u{i}", "max_tokens": 2})
    assert server.post("/v1/wane/rollout", {"do": "advance", "feature": "memo"}).status == 200
    expect(page.locator("#rollout")).to_contain_text("running, stage 2 of 2: everybody has it")
    expect(page.locator("#rollout")).to_contain_text("divergence not known, bar 0.00001")
    state = server.get("/v1/wane/state?samples=0").json()
    memo = state["rollout"]["memo"]
    assert memo["requests_on"] + memo["requests_off"] == 8 and memo["requests_on"] > 0
    assert state["now"]["rollout_memo"] == 2 and state["now"]["rollout_draft"] == 0
    expect(page.locator(".chart", has_text="stage of each feature")).to_be_visible()
    check("state", state)


def test_dashboard_shows_two_sides(held):
    page = held.page
    side = {"replies": 80, "tokens": 9000, "loops": 3, "fused": 1}

    def with_sides(route):  # a server with a profile and --ab-governor
        reply = route.fetch()
        state = {**reply.json(), "ab": {"share": 0.25, "on": side, "off": {**side, "replies": 0}}}
        check("state", state)
        route.fulfill(response=reply, json=state)

    page.route("**/v1/wane/state*", with_sides)
    held.open("watch")
    sides = page.locator("#sides")
    expect(sides).to_contain_text("with the governor25 % of those who ask; 80 replies so farwent round in a loop: 3.8 %; ended by the fuse: 1.3 %")
    expect(sides).to_contain_text("without it75 % of those who ask; 0 replies so farwent round in a loop: –; ended by the fuse: –")
    page.unroute_all()


def test_percentiles(held):
    page = held.open()
    result = page.evaluate("""async () => {
        const {Samples} = await import('/page/samples.js');
        const form = {fields: ['at_ms', 'seconds', 'n', 'ttft', 'tpot'], gauges: 0, buckets: {least_ms: 1, per_octave: 1, count: 96}};
        const s = new Samples(form, [[1000, 1, 4, [[0, 50], [3, 45], [6, 5]], []], [2000, 2, 6, [], []]]);
        const again = s.add([2000, 1, 1, [], []]);
        return {p: s.percentiles(s.rows, 'ttft', [0.5, 0.95, 0.99]), none: s.percentiles(s.rows, 'tpot', [0.5]), rate: s.rate(s.rows[1], 'n'),
            again, last: s.last(0.01).length, csv: s.csv(s.rows).split('\\n')};
    }""")
    assert [round(x, 3) for x in result["p"]] == [round(2 ** e, 3) for e in (0.5, 3.5, 6.5)]
    assert result["none"] == [None] and result["rate"] == 3 and result["again"] is False and result["last"] == 1
    assert result["csv"][0] == "at_ms,seconds,n,ttft_p50_ms,ttft_p95_ms,ttft_p99_ms,tpot_p50_ms,tpot_p95_ms,tpot_p99_ms"
    assert result["csv"][2] == "2000,2,6,,,,,,"


def test_without_charts(held):
    """A build without npm: the numbers are there, and the page says what is missing."""
    held.expected = "404"
    page = held.page
    page.route("**/page/uplot.*", lambda route: route.fulfill(status=404, body="no"))
    held.open("watch")
    expect(page.locator("#watch-notice")).to_contain_text("This build has no charts")
    expect(page.locator(".tile")).to_have_count(8)
    page.unroute_all()
    held.faults.clear()  # the browser complains of the script that is not there


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_moves_while_streaming(page_on, server, width):
    """Neither while words come, also in pieces, nor when all that is said of a reply comes at its end."""
    held = page_on(server, width=width)
    page = held.open()
    page.get_by_role("button", name="Settings").click()
    page.locator("#set-max_tokens").fill("90")
    page.get_by_role("button", name="Done").click()
    page.evaluate("""() => {
        window.shifts = [];
        const said = (source) => `${source.node?.className ?? source.node?.nodeName}: ${source.node?.textContent?.slice(0, 40)} ${source.previousRect.y} to ${source.currentRect.y}`;
        new PerformanceObserver((list) => list.getEntries().forEach((one) => {
            if (!one.hadRecentInput) window.shifts.push([one.value, ...one.sources.map(said)]);
        })).observe({type: 'layout-shift'});
    }""")
    held.ask_all("slow pieces, please" if width == 768 else "words, please")
    expect(page.locator(".turn .stats")).to_contain_text("cut at the token limit")
    page.wait_for_timeout(100)
    assert page.evaluate("window.shifts") == []


def test_long_answers(held):
    """2,000 tokens: all there, drawn in far fewer strokes than tokens, and followed to their end."""
    page = held.open()
    page.evaluate("""() => {
        window.strokes = 0;
        new MutationObserver((list) => { window.strokes += list.some((one) => one.target.classList?.contains('answer')); })
            .observe(document.getElementById('turns'), {childList: true, subtree: true});
    }""")
    held.ask_all("long story")
    text = answer(page).text_content()
    assert len(text) == 46 * 44
    expect(page.locator(".turn .stats")).to_contain_text("2024 tokens")
    assert page.evaluate("window.strokes") < 1000
    left = page.evaluate("() => { const t = document.getElementById('talk'); return t.scrollHeight - t.scrollTop - t.clientHeight; }")
    assert left < 150


def test_reading_back_is_not_disturbed(held):
    page = held.open()
    held.ask_all("long story again")
    held.ask("slow for long")
    expect(answer(page)).to_contain_text("one")
    page.evaluate("document.getElementById('talk').scrollTop = 0")
    page.locator(".turn").last.locator(".turn-tools").wait_for()
    assert page.evaluate("document.getElementById('talk').scrollTop") == 0


@pytest.mark.parametrize("width,scheme", [(360, "light"), (1440, "dark")])
def test_everybody_can_use_it(page_on, server, width, scheme):
    held = page_on(server, width=width, height=800, color_scheme=scheme)
    page = held.open()

    def check(what):
        if AXE is None:
            return
        found = page.evaluate(AXE + ";axe.run(document, {resultTypes: ['violations']})")
        faults = [(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found["violations"]]
        assert not faults, (what, width, scheme, faults)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, (what, wide)

    held.ask_all("Is it accessible?")
    answer(page).locator(".t").nth(2).click()
    check("ask")
    if width == 360:
        page.get_by_role("button", name="Close").click()
        expect(page.locator("#detail")).to_be_hidden()
    page.get_by_role("button", name="Settings").click()
    check("settings")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Compare").click()
    page.fill("#compare-temperature", "0")
    page.locator("#compare-run").click()
    expect(page.locator(".badge.same")).to_have_count(2)
    check("compare")
    page.get_by_role("link", name="Watch").click()
    expect(page.locator(".tile")).to_have_count(8)
    check("watch")


def test_light_and_dark(held):
    page = held.open()

    def paper():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")
    before = paper()
    page.get_by_role("button", name="Switch between light and dark").click()
    after = paper()
    assert before != after
    page.reload()
    eventually(lambda: paper() == after, what="the theme of before")
