"""Test the words of likely causes: their headings, and what would confirm each."""

import json
from dataclasses import replace

from millrace.analysis.certainty import Certainty
from millrace.analysis.explain.causes.model import Kind
from millrace.analysis.explain.explanation import Explanation
from millrace.report.explanation.causes import ablating, cause_texts
from millrace.report.explanation.json import as_json
from tests.support.explained import explained_page, explained_text
from tests.support.reports import one_line, page_text


def test_each_cause_has_its_confirmation(study: Explanation) -> None:
    text = one_line(explained_text([study]))
    assert text.count("to confirm it: ") == sum(
        each.certainty != Certainty.SHOWN for each in study.likely_causes
    )
    assert "to confirm it: `--ablate` measures B with it as in A" in text
    queue = replace(study.likely_causes[0], kind="cpu", about="queue for CPUs")
    queued = one_line(explained_text([replace(study, likely_causes=(queue,))]))
    assert "to confirm it: measure again while the host's CPUs are free" in queued
    assert "--ablate" not in queued


def test_no_profile_is_advised_when_there_is_one(study: Explanation) -> None:
    kinds: tuple[Kind, ...] = ("cpu", "lock", "instructions")
    causes = tuple(replace(study.likely_causes[0], kind=kind) for kind in kinds)
    profiled = replace(study, likely_causes=causes)
    for found, advised in ((profiled, 0), (replace(profiled, profile=None), len(kinds))):
        details = [detail for text in cause_texts(found) for detail in text.details]
        assert sum("--profile-blocks" in detail for detail in details) == advised
        (document,) = json.loads(as_json([found], found.run))["explanations"]
        confirmed = [each["confirmed_by"] for each in document["likely_causes"]]
        assert sum("--profile-blocks" in each for each in confirmed) == advised


def test_facts_alone_have_a_heading_of_their_own(study: Explanation) -> None:
    fact = replace(study.likely_causes[0], us=None, share=None, certainty=Certainty.FACT)
    alone = replace(study, likely_causes=(fact,), why_no_likely_causes="No cause follows.")
    for text in (explained_text([alone]), page_text(explained_page(alone))):
        assert text.index("No cause follows.") < text.index("Facts that may be behind it")
    assert "Facts that may be behind it" not in explained_text([study])


def test_a_setting_that_is_the_compared_factor_is_confirmed_by_blocks(study: Explanation) -> None:
    fact = replace(study.likely_causes[0], settings={"general_log": ("OFF", "ON")})
    found = replace(study, factor="options.general_log", likely_causes=(fact,))
    (text,) = cause_texts(found)
    assert text.details[-1].startswith("to confirm it: more blocks")
    assert ablating(found) == ""
    assert ablating(study).endswith(" --ablate")


def test_a_setting_of_a_replica_is_varied_in_the_experiment(study: Explanation) -> None:
    assert study.b.instance is not None
    instance = replace(study.b.instance, role="replica")
    found = replace(study, b=replace(study.b, instance=instance))
    assert ablating(found) == ""
    details = [detail for text in cause_texts(found) for detail in text.details]
    assert any("replica.options.NAME" in detail for detail in details)
    assert not any("--ablate" in detail for detail in details)
