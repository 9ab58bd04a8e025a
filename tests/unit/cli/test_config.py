"""Test the list of configurations."""

import json

from tests.support.called import millrace


def test_list_has_the_parent_and_the_title_of_each_under_their_heads() -> None:
    (wanted,) = (
        each
        for each in json.loads(millrace("config", "list", "--json").stdout)
        if each["name"] == "cached-oltp"
    )
    heads, *lines = millrace("config", "list").stdout.splitlines()
    (line,) = (each for each in lines if each.startswith("cached-oltp "))
    for head in ("extends", "title"):
        assert line[heads.index(head) :].startswith(wanted[head][:20])
