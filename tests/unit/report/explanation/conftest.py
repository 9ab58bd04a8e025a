"""Provide explanations for the tests of their formats."""

import pytest

from millrace.analysis.explain.explanation import Explanation
from tests.support.explained import explained_study, unprofiled


@pytest.fixture(scope="module")
def study() -> Explanation:
    return explained_study()


@pytest.fixture(scope="module")
def little() -> Explanation:
    return unprofiled()
