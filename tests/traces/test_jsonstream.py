"""JSON one element at a time: the same values as the standard library reads, one line where it is none."""

from __future__ import annotations

import io
import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.traces import jsonstream
from perfmodel.traces.jsonstream import JsonStream

PLAIN = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)


def members(text: str | bytes, chunk: int = jsonstream.CHUNK) -> list[tuple[str, Any]]:
    raw = text if isinstance(text, bytes) else text.encode()
    with patch.object(jsonstream, "CHUNK", chunk), patch.object(jsonstream, "MARGIN", max(chunk // 16, 1)):
        stream = JsonStream(io.BytesIO(raw), "some.json")
        with patch.object(stream, "_more", lambda size=chunk, more=stream._more: more(min(size, chunk))):
            return list(stream.members({"list"}))


@given(st.dictionaries(st.text().filter(lambda key: key != "list"), VALUES, max_size=4), st.lists(VALUES, max_size=8),
       st.integers(1, 40), st.sampled_from([None, 1]))  # fmt: skip
def test_reads_what_the_standard_library_reads(
    rest: dict[str, Any], listed: list[Any], chunk: int, indent: int | None
) -> None:
    whole = rest | {"list": listed}
    expected = [*rest.items(), *(("list", value) for value in listed)]
    assert members(json.dumps(whole, indent=indent), chunk) == expected


@given(st.lists(VALUES, max_size=8), st.integers(1, 40))
def test_a_list_at_the_top_is_a_member_without_a_name(listed: list[Any], chunk: int) -> None:
    assert members(json.dumps(listed), chunk) == [("", value) for value in listed]


def test_a_byte_order_mark_and_bytes_that_are_no_text_do_not_stop_it() -> None:
    assert members(b'\xef\xbb\xbf{"a": "\xff"}') == [("a", "�")]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("hello", "is no JSON"),
        ('"text"', "is no JSON"),
        ('{"a": 1', "is cut off: its JSON ends in the middle, after 7 characters"),
        ('{"a": tr', "is cut off: its JSON ends in the middle, after 6 characters"),
        ('{"list": [1, 2', "is cut off: its JSON ends in the middle, after 14 characters"),
        ('{"list": [1, "two', "is cut off: its JSON ends in the middle, after 13 characters"),
        ('{"list"', "is cut off: its JSON ends in the middle, after 7 characters"),
        ('{"a": tru}', "is no JSON at character 6: expecting value"),
        ('{"a" 1}', "is no JSON at character 5: a key and a colon are wanted"),
        ("{1: 2}", "is no JSON at character 2: a key and a colon are wanted"),
        ('{"list": [1 2]}', "is no JSON at character 12: a comma or ] is wanted"),
        ('{"list": [1, ]}', "is no JSON at character 13: expecting value"),
        ("[1] [2]", "is no JSON at character 4: there is more after its end"),
        ("[" + "9" * 5000 + "]", "is no JSON at character 1: a number has thousands of digits"),
        ("[" * 200_000, "is nested too deeply"),
        ('{"list": [' + '{"a":' * 200_000, "is nested too deeply"),
    ],
)
def test_says_what_is_wrong(text: str, fault: str) -> None:
    with pytest.raises(InputError) as caught:
        members(text)
    assert str(caught.value) == f"some.json: {fault}"


def test_one_element_may_not_fill_the_memory() -> None:
    with patch.object(jsonstream, "LARGEST", 1000), pytest.raises(InputError, match="one element is longer than"):
        members('["' + "a" * 10_000, 100)


def assert_one_line(error: InputError) -> None:
    assert len(str(error).splitlines()) == 1


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        members(raw, 7)
    except InputError as error:
        assert_one_line(error)
