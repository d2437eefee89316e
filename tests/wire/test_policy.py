# SPDX-License-Identifier: MIT
"""A listing's Content-Security-Policy allows its own style and script by their hashes, and nothing else."""
import base64
import hashlib
import re

import pytest

pytestmark = pytest.mark.any_engine("a constant of every page")


def between(page, tag):
    """The bytes of the only element of that name, which has no attributes."""
    found = re.findall(rb"<" + tag + rb"(?:\s[^>]*)?>(.*?)</" + tag + rb">", page, re.S)
    assert len(found) == 1 and b"<" + tag + b">" in page, tag
    return found[0]


def hash_of(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text).digest()).decode() + "'"


@pytest.mark.core
@pytest.mark.parametrize("target", ["/list/", "/odd/", "/empty/", "/list/?sort=size&order=desc&filter=one"])
def test_hashes(wire, target):
    """The hashes are recomputed from the page: after a change of style or script, put them into core/listing_page.h."""
    reply = wire.ask(target)
    policy = dict(part.strip().split(" ", 1) for part in reply["content-security-policy"].split(";"))
    assert policy == {"default-src": "'none'", "style-src": hash_of(between(reply.body, b"style")),
                      "script-src": hash_of(between(reply.body, b"script")), "img-src": "data:",
                      "form-action": "'self'", "base-uri": "'none'"}
    assert reply["x-content-type-options"] == "nosniff"
    assert not re.search(rb"<[^>]* (style|on\w+)=", reply.body)


def test_alike_for_head(wire):
    assert wire.ask("/list/", "HEAD")["content-security-policy"] == wire.ask("/list/")["content-security-policy"]


@pytest.mark.parametrize("target", ["/list/?format=json", "/list/?format=text", "/hello.txt", "/index/", "/list", "/missing"])
def test_of_nothing_else(wire, target):
    """Other answers have no policy: a page of the site's own has its own needs."""
    assert wire.ask(target).get("content-security-policy") is None
