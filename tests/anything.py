"""What strangers may send to a handler or an endpoint."""

from hypothesis import strategies as st

TEXT = st.text(max_size=20) | st.sampled_from(
    [
        "pong",
        "cartpole",
        "ALE/Pong-v5",
        "user/agent",
        "../zoo",
        "/etc/passwd",
        "<b>",
        "%00",
        "greedy",
        "sampled",
        "7",
        "-1",
        "1e9",
        "²",
    ]
)
NUMBER = st.integers(-(2**70), 2**70) | st.integers(0, 5) | st.floats() | st.sampled_from([1e308, -1e308, 10**400])
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(TEXT, some, max_size=3),
    max_leaves=4,
)
"""What JSON can say, and what no JSON says."""
