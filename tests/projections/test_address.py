"""A plain address, taken apart, and what is none."""

import pytest

from projections.address import address_of


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://policy.example/decide", (True, "policy.example", 443, "/decide")),
        ("https://policy.example", (True, "policy.example", 443, "/")),
        ("http://127.0.0.1:8080/a/b/", (False, "127.0.0.1", 8080, "/a/b/")),
    ],
)
def test_where_a_request_goes(url, parts):
    assert address_of(url) == parts


@pytest.mark.parametrize(
    "url",
    [
        "", "policy.example", "ftp://policy.example/", "https://", "https://user:word@policy.example/",
        "https://policy.example/?key=word", "https://policy.example/#x", "https://policy.example:0/",
        "https://policy.example/a b", "https://[::1/",
    ],
)  # fmt: skip
def test_what_is_no_plain_address(url):
    assert address_of(url) is None


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("https://policy.example/", True),
        ("http://localhost/", True),
        ("http://[::1]/", True),
        ("http://policy.example/", False),
        ("http://10.0.0.1/", False),
    ],
)
def test_what_nobody_on_the_way_can_read(url, private):
    address = address_of(url)
    assert address is not None
    assert address.is_private is private
