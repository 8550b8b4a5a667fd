"""The style sheets of both pages have the colours of the figures on them."""

import re
from pathlib import Path

import pytest

from constrained_dnc import colours

PACKAGE = Path(colours.__file__).parent


@pytest.mark.parametrize("sheet", ["explorer/page.css", "report/templates/page.css"])
def test_pages_and_figures_share_ink_and_ground(sheet):
    found = re.findall(r"--(ink|card|accent): (#\w+);", (PACKAGE / sheet).read_text())
    light, dark = dict(found[:3]), dict(found[3:])
    for page, figures in ((light, colours.LIGHT), (dark, colours.DARK)):
        assert (page["ink"], page["card"]) == (figures["ink"], figures["ground"])
    assert light["accent"] == colours.BLUE.lower()
