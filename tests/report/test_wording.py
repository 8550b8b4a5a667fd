"""Numbers as the report prints them."""

import pytest

from constrained_dnc.report.wording import plural, rounded, signed, thousands


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (46 / 40, 1, "1.2"),  # binary rounding would say 1.1
        (0.5, 0, "1"),
        (-0.004, 2, "0.00"),
        (-3, 0, "\u22123"),
        (1e-9, 3, "0.000"),
        (None, 1, "\u2013"),
        (float("nan"), 1, "\u2013"),
    ],
)
def test_rounded(value: float | None, digits: int, text: str) -> None:
    assert rounded(value, digits) == text


def test_signed_shows_the_sign_of_what_is_printed() -> None:
    assert [signed(value, 1) for value in (2.0, -2.0, 0.04, None)] == [
        "+2.0",
        "\u22122.0",
        "0.0",
        "\u2013",
    ]


def test_counts() -> None:
    assert thousands(1_234_567) == "1\u202f234\u202f567"
    assert (plural(1, "trial"), plural(0, "trial")) == ("1 trial", "0 trials")
