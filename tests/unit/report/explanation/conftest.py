"""Provide explanations for the tests of their formats."""

from __future__ import annotations

import pytest

from millrace.analysis.explain.explanation import Explanation
from tests.unit.report.explanation.explained import explained_study, unprofiled


@pytest.fixture(scope="module")
def study() -> Explanation:
    return explained_study()


@pytest.fixture(scope="module")
def little() -> Explanation:
    return unprofiled()
