"""Colours of pages, figures and approaches."""

import re
from pathlib import Path

import pytest

from constrained_dnc import colours
from constrained_dnc.parts import APPROACHES

PACKAGE = Path(colours.__file__).parent


@pytest.mark.parametrize("sheet", ["explorer/page.css", "report/templates/page.css"])
def test_pages_and_figures_share_ink_and_ground(sheet):
    values = re.findall(r"--(ink|card|accent): (#\w+);", (PACKAGE / sheet).read_text())
    light, dark = dict(values[:3]), dict(values[3:])
    for page, figures in ((light, colours.LIGHT), (dark, colours.DARK)):
        assert (page["ink"], page["card"]) == (figures["ink"], figures["ground"])
    assert light["accent"] == colours.BLUE.lower()


def test_no_two_approaches_share_a_colour():
    names = [*APPROACHES, *(f"mine-{n}" for n in range(20))]
    shades = colours.colours_of(names)
    assert len(set(shades.values())) == len(names)
    assert colours.colours_of(["mine-7", "peephole"])["peephole"] == shades["peephole"]
