"""The guard's parts by themselves: addresses, rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")

from strobe.annexes.web.guard import RateLimit, ServerAddress, is_loopback
from strobe.core.errors import StrobeError


def test_loopback_answers_to_its_own_names_only():
    address = ServerAddress.of("127.0.0.1", 8321)
    assert address.hosts == {"127.0.0.1:8321", "localhost:8321", "[::1]:8321"}
    assert address.origins == {"http://127.0.0.1:8321", "http://localhost:8321", "http://[::1]:8321"}
    assert ServerAddress.of("::1", 80).hosts >= {"[::1]:80", "[::1]", "localhost"}


@pytest.mark.parametrize(
    ("given", "origins", "hosts"),
    [
        ("http://lab-3:80", {"http://lab-3:80", "http://lab-3"}, {"lab-3:80", "lab-3"}),
        ("https://Lab-3:443/", {"https://lab-3:443", "https://lab-3"}, {"lab-3:443", "lab-3"}),
        ("http://lab-3:443", {"http://lab-3:443"}, {"lab-3:443"}),
        ("http://[2001:DB8::1]:80", {"http://[2001:db8::1]:80", "http://[2001:db8::1]"},
         {"[2001:db8::1]:80", "[2001:db8::1]"}),
        ("https://Review.example.org", {"https://review.example.org"}, {"review.example.org"}),
    ],
)  # fmt: skip
def test_the_default_port_may_be_left_out_of_host_and_origin(given, origins, hosts):
    address = ServerAddress.of("0.0.0.0", 8321, given)
    assert address.origins == origins
    assert address.hosts == hosts


@pytest.mark.parametrize(
    "bad",
    [
        "review.example.org", "https://", "https://x/path", "https://x?y", "javascript:alert(1)", "ftp://x",
        "http://user:pw@h:99999", "http://user:pw@lab-3", "http://user@lab-3", "http://h:0", "http://h:port",
        "http://h#x", "http://[::1", "http://:8321", "http://a b", "http://bücher.example", "http://h\\evil",
    ],
)  # fmt: skip
def test_public_addresses_nobody_could_type_are_refused_in_one_line(bad):
    with pytest.raises(StrobeError, match="--public-url: expected") as caught:
        ServerAddress.of("0.0.0.0", 1, bad)
    assert "\n" not in str(caught.value)
    assert "pw" not in str(caught.value), "a password is not repeated"


def test_what_loopback_is():
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    for host in ("0.0.0.0", "::", "192.0.2.1", "127.0.0.1.evil.example", ""):
        assert not is_loopback(host)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 3)), max_size=60))
def test_rate_against_a_plain_reference(calls):
    now = 0.0
    rate = RateLimit(per_s=2, burst=3, clock=lambda: now)
    level, last = {}, {}
    for who, pause in calls:
        now += pause
        level[who] = min(3.0, level.get(who, 3.0) + 2 * (now - last.get(who, now)))
        last[who] = now
        allowed = level[who] >= 1
        level[who] -= allowed
        assert rate.allows(who) == allowed
