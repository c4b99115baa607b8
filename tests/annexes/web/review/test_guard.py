"""The guard's parts by themselves: addresses, rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.errors import StrobeError

pytest.importorskip("starlette")

from strobe.annexes.web.guard import RateLimit, ServerAddress, is_loopback


def test_loopback_answers_to_its_own_names_only():
    address = ServerAddress.of("127.0.0.1", 8321)
    assert address.hosts == {"127.0.0.1:8321", "localhost:8321", "[::1]:8321"}
    assert address.origins == {"http://127.0.0.1:8321", "http://localhost:8321", "http://[::1]:8321"}
    assert ServerAddress.of("::1", 80).hosts >= {"[::1]:80", "[::1]", "localhost"}


def test_a_public_address_answers_to_nothing_else():
    address = ServerAddress.of("0.0.0.0", 8321, "https://Review.example.org")
    assert address.url == "https://review.example.org"
    assert address.hosts == {"review.example.org"}
    assert address.origins == {"https://review.example.org"}
    assert ServerAddress.of("192.0.2.7", 80).hosts == {"192.0.2.7:80", "192.0.2.7"}


@pytest.mark.parametrize(
    "bad", ["review.example.org", "https://", "https://x/path", "https://x?y", "javascript:alert(1)"]
)
def test_public_addresses_that_are_refused(bad):
    with pytest.raises(StrobeError, match="--public-url: expected"):
        ServerAddress.of("0.0.0.0", 1, bad)


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
