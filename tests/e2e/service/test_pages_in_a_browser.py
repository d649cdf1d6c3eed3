"""The pages in a real browser: on the samples, with and without scripts, on a small screen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page

from tests.effort import slow
from tests.requirements import needs
from tests.services.page_site import chromium, fill, page_addresses
from tests.services.served import Served

pytestmark = needs("chromium")

_TIMEOUT_MS = 120_000
_PHONE = {"width": 360, "height": 640}


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


def _context(browser: Browser, **options: object) -> BrowserContext:
    context = browser.new_context(ignore_https_errors=True, **options)  # type: ignore[arg-type]
    context.set_default_timeout(_TIMEOUT_MS)
    return context


def _problems(page: Page, origin: str) -> list[str]:
    """A list that fills with whatever goes wrong on a page."""
    problems: list[str] = []
    page.on("console", lambda it: problems.append(it.text) if it.type != "log" else None)
    page.on("pageerror", lambda it: problems.append(str(it)))
    # The browser itself aborts what still loads when a test opens the next page.
    page.on(
        "requestfailed",
        lambda it: (
            None
            if it.failure == "net::ERR_ABORTED"
            else problems.append(f"failed: {it.url}: {it.failure}")
        ),
    )
    page.on(
        "request",
        lambda it: None if it.url.startswith((origin, "data:")) else problems.append(it.url),
    )
    return problems


def _beyond_the_screen(page: Page, selector: str) -> list[str]:
    """Texts of the elements that are not within the width of the screen."""
    texts: list[str] = page.locator(selector).evaluate_all(
        """elements => elements
            .map(it => [it.textContent, it.getBoundingClientRect()])
            .filter(([_, box]) => box.left < 0 || box.right > innerWidth)
            .map(([text]) => text)"""
    )
    return texts


@pytest.mark.parametrize("scripts", [True, *slow([False])])
def test_pages_load_without_errors_on_a_small_dark_screen(
    site: Served, browser: Browser, addresses: list[str], scripts: bool
) -> None:
    context = _context(
        browser, java_script_enabled=scripts, color_scheme="dark",
        viewport={"width": 320, "height": 640},
    )  # fmt: skip
    page = context.new_page()
    problems = _problems(page, site.base_url)
    for path in addresses:
        response = page.goto(site.base_url + path)
        assert response is not None
        assert response.status == 200, path
        assert page.locator("h1").count() == 1, path
        if scripts:
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert problems == [], path
    context.close()


@pytest.mark.parametrize(
    ("path", "long"),
    [
        ("/stacks", "form.filters option"),
        ("/benchmarks", "#results h2"),
        ("/compare?", "[aria-label='Packages that differ'] a"),
    ],
)
def test_long_names_are_no_wider_than_a_phone(
    site: Served, browser: Browser, addresses: list[str], path: str, long: str
) -> None:
    context = _context(browser, viewport=_PHONE)
    page = context.new_page()
    page.goto(site.base_url + next(it for it in addresses if it.startswith(path)))
    page.locator(long).first.evaluate(
        "it => { it.textContent = 'long_name_of_a_metric'.repeat(5) }"
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


def test_the_documentation_of_the_api_is_no_wider_than_a_phone(
    site: Served, browser: Browser
) -> None:
    context = _context(browser, viewport=_PHONE)
    page = context.new_page()
    page.goto(f"{site.base_url}/docs")
    page.locator("details").evaluate_all("all => all.forEach(it => { it.open = true })")
    assert page.locator("td").count() > 1000
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


def test_the_menu_has_one_line_on_a_phone(site: Served, browser: Browser) -> None:
    context = _context(browser, viewport=_PHONE)
    page = context.new_page()
    page.goto(site.base_url)
    links = page.locator("nav a")
    tops = links.evaluate_all("links => links.map(it => it.getBoundingClientRect().top)")
    assert len(set(tops)) == 1
    links.last.focus()
    assert _beyond_the_screen(page, "nav li:last-child a") == []
    context.close()


def test_a_phone_shows_the_reasons_of_an_advice(
    site: Served, browser: Browser, addresses: list[str]
) -> None:
    context = _context(browser, viewport=_PHONE)
    page = context.new_page()
    page.goto(site.base_url + next(it for it in addresses if it.startswith("/advice/")))
    packages = page.get_by_role("region", name="Packages", exact=True)
    reasons = packages.get_by_role("cell").and_(page.locator("td:last-child"))
    assert reasons.count() == packages.get_by_role("rowheader").count() > 0
    assert packages.evaluate("it => it.scrollWidth <= it.clientWidth")
    assert _beyond_the_screen(page, "[aria-label=Packages] :is(th, td)") == []
    context.close()


def test_a_phone_shows_whole_intervals_with_their_labels(
    site: Served, browser: Browser, addresses: list[str]
) -> None:
    context = _context(browser, viewport=_PHONE)
    page = context.new_page()
    for kind in ("/advice/", "/compare?", "/stacks", "/reports/sha256:"):
        page.goto(site.base_url + next(it for it in addresses if it.startswith(kind)))
        assert page.locator("svg.effects circle").count() > 0, kind
        assert _beyond_the_screen(page, "svg.effects :is(text, circle, line)") == [], kind
        heights = page.locator("svg.effects text").evaluate_all(
            "texts => texts.map(it => it.getBoundingClientRect().height)"
        )
        assert min(heights) > 12, kind
    context.close()


@pytest.mark.parametrize("scheme", ["light", *slow(["dark"])])
def test_pages_have_no_serious_accessibility_violations(
    site: Served, browser: Browser, addresses: list[str], scheme: str
) -> None:
    context = _context(browser, bypass_csp=True, color_scheme=scheme)
    page = context.new_page()
    # The dark scheme has other colours, and nothing else. The description of the API has thousands
    # of rows, and they are alike.
    options = {"runOnly": ["color-contrast"]} if scheme == "dark" else None
    for path in addresses if scheme == "dark" else [it for it in addresses if it != "/docs"]:
        page.goto(site.base_url + path)
        violations = Axe().run(page, options=options).response["violations"]
        serious = [it["id"] for it in violations if it["impact"] in {"serious", "critical"}]
        assert serious == [], path
    context.close()


def test_the_plot_with_zoom_leads_to_a_job(site: Served, browser: Browser) -> None:
    with site.client() as client:
        groups = client.get("/api/v2/comparison-groups", params={"package": "numpy"}).json()
    context = _context(browser)
    page = context.new_page()
    problems = _problems(page, site.base_url)
    page.goto(f"{site.base_url}/series/{groups['items'][0]['comparison_key']}")
    page.get_by_text("Plot with zoom").click()
    page.locator(".u-over").click()
    page.wait_for_url("**/jobs/*")
    assert problems == []
    context.close()


def test_a_question_shows_what_the_graph_answers(site: Served) -> None:
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
    context = _context(browser)
    page = context.new_page()
    page.goto(f"{site.base_url}/questions/1")
    page.get_by_role("button", name="Run").click()
    page.locator("#results").get_by_text("scope 'cypher'").wait_for()
    page.locator("#results").get_by_role("link", name="Sign in").click()
    page.get_by_role("heading", name="Sign in").wait_for()
    context.close()


def test_a_dropped_file_is_chosen(site: Served, browser: Browser) -> None:
    context = _context(browser)
    page = context.new_page()
    problems = _problems(page, site.base_url)
    page.goto(f"{site.base_url}/ask")
    transfer = page.evaluate_handle(
        """() => {
            const transfer = new DataTransfer();
            transfer.items.add(new File(["flask\\n"], "requirements.in"));
            return transfer;
        }"""
    )
    page.dispatch_event("form[enctype]", "drop", {"dataTransfer": transfer})
    assert page.evaluate("document.getElementById('uploads').files[0].name") == "requirements.in"
    assert page.get_by_text("requirements.in", exact=True).last.is_visible()
    assert problems == []
    context.close()


@pytest.mark.parametrize("scripts", [True, *slow([False])])
def test_locks_are_compared_with_the_keyboard_alone(
    site: Served, browser: Browser, scripts: bool
) -> None:
    context = _context(browser, java_script_enabled=scripts, viewport=_PHONE)
    page = context.new_page()
    problems = _problems(page, site.base_url)
    page.goto(f"{site.base_url}/compare")
    for target, text in (("#old", "numpy==2.0.2"), ("#new", "numpy==2.5.5")):
        _tab_to(page, target)
        page.keyboard.type(text)
    _tab_to(page, "text='Compare the locks'")
    page.keyboard.press("Enter")
    page.get_by_text("Only the old lock was measured as it is").wait_for()
    assert problems == []
    context.close()


def _tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.locator(selector).and_(page.locator(":focus")).count():
            return
    raise AssertionError(f"Tab does not reach {selector}")


def test_two_dropped_locks_are_compared(site: Served, browser: Browser) -> None:
    context = _context(browser)
    page = context.new_page()
    problems = _problems(page, site.base_url)
    page.goto(f"{site.base_url}/compare")
    for legend, version in (("Old lock", "2.0.2"), ("New lock", "2.4.6")):
        transfer = page.evaluate_handle(
            """(version) => {
                const transfer = new DataTransfer();
                transfer.items.add(new File([`numpy==${version}\\n`], `${version}.txt`));
                return transfer;
            }""",
            version,
        )
        group = page.get_by_role("group", name=legend)
        group.dispatch_event("drop", {"dataTransfer": transfer})
        assert group.get_by_text(f"{version}.txt", exact=True).is_visible()
    page.get_by_text("Environment", exact=True).click()
    page.get_by_label("Python").fill("3.11")
    page.get_by_role("button", name="Compare the locks").click()
    page.get_by_text("Both locks were measured as they are").wait_for()
    page.get_by_role("link", name="compare numpy 2.0.2").click()
    page.wait_for_url("**/compare?baseline=*")
    assert problems == []
    context.close()


@pytest.mark.parametrize("scripts", [True, *slow([False])])
def test_filters_and_paging_change_the_results_and_the_address(
    site: Served, browser: Browser, scripts: bool
) -> None:
    context = _context(browser, java_script_enabled=scripts)
    page = context.new_page()
    problems = _problems(page, site.base_url)
    page.goto(f"{site.base_url}/inspections")
    page.get_by_label("Indicator").fill("PiConv2D")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**/inspections?indicator=PiConv2D*")
    page.locator("#foot", has_text="indicator=PiConv2D").wait_for()
    page.goto(f"{site.base_url}/packages?limit=3")
    first = page.locator("#results tbody th").first.inner_text()
    page.get_by_role("link", name="Next page").click()
    page.wait_for_url("**/packages?*after=*")
    page.locator("#results tbody th", has_text=first).wait_for(state="detached")
    page.go_back()
    page.locator("#results tbody th", has_text=first).wait_for()
    assert problems == []
    context.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_newcomer_gets_a_lock_and_asks_why_not(
    site: Served, browser: Browser, scripts: bool
) -> None:
    context = _context(browser, java_script_enabled=scripts)
    page = context.new_page()
    problems = _problems(page, site.base_url)
    page.goto(site.base_url)
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
    assert problems == []
    context.close()
