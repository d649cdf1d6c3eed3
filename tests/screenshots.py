"""Pictures of every page on the samples, to be looked at: ``make screenshots``."""

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.services.page_site import chromium, fill, page_addresses
from tests.services.served import serving

#: Options of the browser by the name of the picture's kind.
_KINDS = {
    "desktop": {"viewport": {"width": 1200, "height": 900}},
    "small": {"viewport": {"width": 320, "height": 640}},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
}
#: Pages that need a token.
_SIGNED_IN = ("/operator", "/questions/2?run=1")


def main(folder: Path) -> None:
    """Write a PNG of each page and kind."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as home, serving(Path(home)) as site, chromium() as browser:
        fill(site)
        token, addresses = site.token("admin"), [*page_addresses(site), *_SIGNED_IN]
        for kind, options in _KINDS.items():
            context = browser.new_context(ignore_https_errors=True, **options)  # type: ignore[arg-type]
            page = context.new_page()
            page.goto(f"{site.base_url}/sign-in")
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Sign in").click()
            for address in addresses:
                page.goto(site.base_url + address)
                short = re.sub(r"(?:sha256:|adviser-)([0-9a-f]{6})[0-9a-f-]*", r"\1", address)
                name = re.sub(r"[^a-z0-9]+", "-", short.strip("/")) or "home"
                page.screenshot(path=folder / f"{name}-{kind}.png", full_page=True)
            context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
