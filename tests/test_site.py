"""The documentation site is complete, works offline and has every page and name."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import constrained_dnc

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "build_docs.py"


class Addresses(HTMLParser):
    """What a page links to, what it loads, and the places in it."""

    def __init__(self, path: Path):
        super().__init__()
        self.links, self.loads, self.places = [], [], {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.places.add(attributes.get("id") or "")
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        elif tag in ("img", "script", "link", "iframe"):
            self.loads += [attributes[name] for name in ("src", "href") if attributes.get(name)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if built := os.environ.get("SITE"):  # by `make docs`, just now
        return Path(built).resolve()
    pytest.importorskip("sphinx", reason="make docs installs it")
    command = [sys.executable, str(SCRIPT), str(tmp_path_factory.mktemp("docs"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return Path(done.stdout.strip()).parent


@pytest.mark.slow
def test_every_page_is_there(site):
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
    for page in pages:
        path = page.relative_to(ROOT).with_suffix(".html")
        made = site / ("index.html" if str(path) == "README.html" else path)
        title = re.search(r"^# (.*)$", page.read_text(), re.M)[1]
        assert title in made.read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    pages = {path: Addresses(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for address in page.loads:
            assert not address.startswith(("http:", "https:", "//")), (path, address)
        for address in (*page.loads, *page.links):
            if address.startswith(("http:", "https:", "mailto:", "data:")):
                continue
            file, _, place = address.partition("#")
            target = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
            assert target.is_file(), (path, address)
            if target in pages:
                assert unquote(place) in pages[target].places, (path, address)


@pytest.mark.slow
def test_every_name_has_its_reference(site):
    text = "".join(page.read_text(encoding="utf-8") for page in site.glob("reference/*.html"))
    for module, names in constrained_dnc.HOMES.items():
        for name in names.split():
            assert f'id="constrained_dnc.{module}.{name}"' in text
    sentence = constrained_dnc.AbstractTask.sample.__doc__.partition("\n")[0]
    assert sentence in text  # of a method
