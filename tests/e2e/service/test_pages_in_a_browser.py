"""The pages in a real browser: on the samples, with and without scripts, on a small screen."""

from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request

from tests.effort import slow
from tests.requirements import needs
from tests.services.page_site import chromium, fill, page_addresses
from tests.services.served import Served

pytestmark = needs("chromium")

_TIMEOUT_MS = 120_000
_PHONE = {"width": 360, "height": 640}
_SMALL, _WIDE = {"width": 320, "height": 640}, {"width": 1280, "height": 720}
#: Opens a page in a context of its own, with options of the context.
Opener = Callable[..., Page]
_IS_NARROW = "document.documentElement.scrollWidth <= innerWidth"
#: A file with a name and a text, as if it were dragged from another window.
_TRANSFER = """([name, text]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], name));
    return transfer;
}"""


@pytest.fixture(scope="module")
def site(served: Served) -> Served:
    fill(served)
    return served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def addresses(site: Served) -> list[str]:
    return page_addresses(site)


@pytest.fixture
def opened(site: Served, browser: Browser) -> Iterator[Opener]:
    """Opens pages; errors, failed requests and requests to other origins fail the test."""
    problems: list[str] = []

    def note_failure(request: Request) -> None:
        # The browser itself aborts what still loads when a test opens the next page.
        if request.failure != "net::ERR_ABORTED":
            problems.append(f"failed: {request.url}: {request.failure}")

    def note_foreign(request: Request) -> None:
        if not request.url.startswith((site.base_url, "data:")):
            problems.append(request.url)

    def open_page(path: str = "/", **options: object) -> Page:
        context = browser.new_context(
            ignore_https_errors=True,
            base_url=site.base_url,
            **options,  # type: ignore[arg-type]
        )
        context.set_default_timeout(_TIMEOUT_MS)
        page = context.new_page()
        page.on("console", lambda it: problems.append(it.text) if it.type != "log" else None)
        page.on("pageerror", lambda it: problems.append(str(it)))
        page.on("requestfailed", note_failure)
        page.on("request", note_foreign)
        page.goto(path)
        return page

    yield open_page
    for context in browser.contexts:
        context.close()
    assert problems == []


def _beyond_the_screen(page: Page, selector: str) -> list[str]:
    """Texts of the elements that are not within the width of the screen."""
    texts: list[str] = page.locator(selector).evaluate_all(
        """elements => elements
            .map(it => [it.textContent, it.getBoundingClientRect()])
            .filter(([_, box]) => box.left < 0 || box.right > innerWidth)
            .map(([text]) => text)"""
    )
    return texts


def _named(addresses: list[str], start: str) -> str:
    return next(it for it in addresses if it.startswith(start))


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "scripts"), [("light", True), ("dark", True), ("light", False)])
def test_pages_load_on_a_small_screen_without_accessibility_violations(
    opened: Opener, addresses: list[str], scheme: str, scripts: bool
) -> None:
    page = opened(java_script_enabled=scripts, color_scheme=scheme, viewport=_SMALL)
    # The dark scheme has other colours, and nothing else.
    options: dict[str, object] = {"resultTypes": ["violations"]}
    if scheme == "dark":
        options["runOnly"] = ["color-contrast"]
    for path in addresses:
        response = page.goto(path)
        assert response is not None
        assert response.status == 200, path
        assert page.locator("h1").count() == 1, path
        if not scripts:
            continue
        assert page.evaluate(_IS_NARROW), path
        # The description of the API has thousands of rows, and they are alike.
        if path != "/docs" or scheme == "dark":
            page.set_viewport_size(_WIDE)  # type: ignore[arg-type]
            violations = Axe().run(page, options=options).response["violations"]
            serious = [it["id"] for it in violations if it["impact"] in {"serious", "critical"}]
            assert serious == [], path
            page.set_viewport_size(_SMALL)  # type: ignore[arg-type]


def test_pages_are_no_wider_than_a_phone(opened: Opener, addresses: list[str]) -> None:
    page = opened(viewport=_PHONE)
    tops = page.locator("nav a").evaluate_all("all => all.map(it => it.offsetTop)")
    assert len(set(tops)) == 1, "the menu has one line"
    page.locator("nav a").last.focus()
    assert _beyond_the_screen(page, "nav li:last-child a") == []
    for start, long_name in (
        ("/stacks", "form.filters option"),
        ("/benchmarks", "#results h2"),
        ("/compare?", "[aria-label='Packages that differ'] a"),
    ):
        page.goto(_named(addresses, start))
        lengthened = "it => { it.textContent = 'long_name_of_a_metric'.repeat(5) }"
        page.locator(long_name).first.evaluate(lengthened)
        assert page.evaluate(_IS_NARROW), start
    page.goto("/docs")
    page.locator("details").evaluate_all("all => all.forEach(it => { it.open = true })")
    assert page.locator("td").count() > 1000
    assert page.evaluate(_IS_NARROW)


def test_long_paths_of_result_files_are_shown_whole(opened: Opener) -> None:
    page = opened("/benchmarks", viewport=_WIDE)
    lengthened = "all => all.forEach(it => { it.textContent = 'of_a_run/mlperf_log'.repeat(6) })"
    page.locator("section td:last-child").evaluate_all(lengthened)
    assert _beyond_the_screen(page, "section td") == []


def test_advice_page_on_a_phone_shows_reasons_and_whole_intervals(
    opened: Opener, addresses: list[str]
) -> None:
    page = opened(_named(addresses, "/advice/"), viewport=_PHONE)
    packages = page.get_by_role("region", name="Packages", exact=True)
    reasons = packages.get_by_role("cell").and_(page.locator("td:last-child"))
    assert reasons.count() == packages.get_by_role("rowheader").count() > 0
    assert packages.evaluate("it => it.scrollWidth <= it.clientWidth")
    assert _beyond_the_screen(page, "[aria-label=Packages] :is(th, td)") == []
    for kind in ("/advice/", "/compare?", "/stacks", "/reports/sha256:"):
        page.goto(_named(addresses, kind))
        assert page.locator("svg.effects circle").count() > 0, kind
        assert _beyond_the_screen(page, "svg.effects :is(text, circle, line)") == [], kind
        heights = page.locator("svg.effects text").evaluate_all(
            "texts => texts.map(it => it.getBoundingClientRect().height)"
        )
        assert min(heights) > 12, kind


def test_point_in_the_zoomable_plot_leads_to_its_job(
    site: Served, opened: Opener, addresses: list[str]
) -> None:
    page = opened(_named(addresses, "/series/"))
    page.get_by_text("Plot with zoom").click()
    page.locator(".u-over").click()
    page.wait_for_url("**/jobs/*")


def test_question_page_shows_the_answer_of_the_graph(site: Served) -> None:
    with site.client(site.token("cypher")) as client:
        address = "/questions/2?indicator=PiConv2D&run=1"
        content = client.get(address).text
        rows = client.get(f"{address}&format=json").json()["rows"]
        lines = client.get(f"{address}&format=csv").text.splitlines()
    assert "Data as of <time" in content
    assert lines[0].startswith("comparison,python,stack,")
    assert len(lines) == 1 + len(rows) > 1
    for row in rows:
        assert f"{row['median_rate']:.6g}" in content
        assert f'href="/stacks/{row["stack"]}"' in content


def test_cypher_question_without_scope_names_the_scope_and_links_to_sign_in(
    site: Served, browser: Browser
) -> None:
    # The refusal is an error in the console.
    context = browser.new_context(ignore_https_errors=True, base_url=site.base_url)
    page = context.new_page()
    page.goto("/questions/1")
    page.get_by_role("button", name="Run").click()
    page.locator("#results").get_by_text("scope 'cypher'").wait_for()
    page.locator("#results").get_by_role("link", name="Sign in").click()
    page.get_by_role("heading", name="Sign in").wait_for()
    context.close()


def test_files_dropped_on_a_form_are_submitted(opened: Opener) -> None:
    page = opened("/ask")
    transfer = page.evaluate_handle(_TRANSFER, ["requirements.in", "flask\n"])
    page.dispatch_event("form[enctype]", "drop", {"dataTransfer": transfer})
    assert page.evaluate("document.getElementById('uploads').files[0].name") == "requirements.in"
    assert page.get_by_text("requirements.in", exact=True).last.is_visible()
    page.goto("/compare")
    for legend, version in (("Old lock", "2.0.2"), ("New lock", "2.4.6")):
        name = f"{version}.txt"
        transfer = page.evaluate_handle(_TRANSFER, [name, f"numpy=={version}\n"])
        group = page.get_by_role("group", name=legend)
        group.dispatch_event("drop", {"dataTransfer": transfer})
        assert group.get_by_text(name, exact=True).is_visible()
    page.get_by_text("Environment", exact=True).click()
    page.get_by_label("Python").fill("3.11")
    page.get_by_role("button", name="Compare the locks").click()
    page.get_by_text("Both locks were measured as they are").wait_for()
    page.get_by_role("link", name="compare numpy 2.0.2").click()
    page.wait_for_url("**/compare?baseline=*")


@pytest.mark.parametrize("scripts", [True, *slow([False])])
def test_locks_are_compared_with_the_keyboard_alone(opened: Opener, scripts: bool) -> None:
    page = opened("/compare", java_script_enabled=scripts, viewport=_PHONE)
    for target, text in (("#old", "numpy==2.0.2"), ("#new", "numpy==2.5.5")):
        _tab_to(page, target)
        page.keyboard.type(text)
    _tab_to(page, "text='Compare the locks'")
    page.keyboard.press("Enter")
    page.get_by_text("Only the old lock was measured as it is").wait_for()


def _tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.locator(selector).and_(page.locator(":focus")).count():
            return
    raise AssertionError(f"Tab does not reach {selector}")


@pytest.mark.parametrize("scripts", [True, *slow([False])])
def test_filters_and_paging_change_the_results_and_the_page_url(
    opened: Opener, scripts: bool
) -> None:
    page = opened("/inspections", java_script_enabled=scripts)
    page.get_by_label("Indicator").fill("PiConv2D")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**/inspections?indicator=PiConv2D*")
    page.locator("#foot", has_text="indicator=PiConv2D").wait_for()
    page.goto("/packages?limit=3")
    first = page.locator("#results tbody th").first.inner_text()
    page.get_by_role("link", name="Next page").click()
    page.wait_for_url("**/packages?*after=*")
    page.locator("#results tbody th", has_text=first).wait_for(state="detached")
    page.go_back()
    page.locator("#results tbody th", has_text=first).wait_for()


@pytest.mark.parametrize("scripts", [True, *slow([False])])
def test_visitor_gets_a_lock_and_asks_why_not(opened: Opener, scripts: bool) -> None:
    page = opened(java_script_enabled=scripts)
    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_label("Requirements").first.fill("flask>=3\nnumpy\n")
    page.get_by_label("Optimised for").select_option("performance")
    page.get_by_text("Environment and rules").click()
    page.get_by_label("Python").fill("3.11")
    page.get_by_label("Platform").fill("manylinux_2_28_x86_64")
    page.get_by_label("Hardware").select_option(label="AMD EPYC, 2 CPUs (fa9f8e70)")
    page.get_by_role("button", name="Ask").click()
    page.wait_for_url("**/advice/*")
    with page.expect_download() as download:
        page.get_by_role("link", name="requirements.txt").click()
    lock = download.value.path().read_text("utf-8")
    assert "numpy==" in lock
    assert "--hash=sha256:" in lock
    page.get_by_label("Requirement", exact=True).fill("numpy==2.0.2")
    page.get_by_role("button", name="Why not?").click()
    if not scripts:
        page.wait_for_url("**/why-not/*")
    page.locator("#state", has_text="A stack has it").wait_for()
    assert ("/advice/" in page.url) is scripts
    page.get_by_role("link", name="Link to this question").click()
    page.wait_for_url("**/advice/*/why-not?requirement=numpy*")
    page.locator("#state", has_text="A stack has it").wait_for()
    page.get_by_role("link", name="Back to the advice").click()
    page.wait_for_url(lambda url: "why-not" not in url)
    assert page.get_by_role("columnheader", name="Yours").count() == 0
    page.get_by_label("Requirement", exact=True).fill("numpy==1.0")
    page.get_by_role("button", name="Why not?").click()
    page.locator("li", has_text="you ask for numpy==1.0").wait_for()
    assert page.get_by_text("accounts").count() == 0
    page.get_by_role("link", name="Stacks", exact=True).click()
    page.get_by_text("stacks, batch=").first.click()
    page.get_by_role("link", name="compare", exact=True).first.click()
    page.locator("h2", has_text="Packages that differ").wait_for()
