"""The profile: what a receipt binds, and the formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.canonical import canonical_json
from projections.lexical.profile import (
    PROFILE_NAME,
    PROFILE_VERSION,
    RECORD_FIELDS,
    SCORING_FORMULA_REF,
    Field,
    profile_config,
    profile_config_digest,
)
from projections.lexical.scoring import field_factor, impact, impacts, term_weight


def test_the_profile_is_this_one():
    # A change of a constant must come with a new version: then this digest is written anew.
    assert (PROFILE_NAME, PROFILE_VERSION) == ("offline_lexical_v1", 2)
    assert profile_config_digest() == "sha256:0f41307f301515cbb63dd52c53a996b692cc54e971b0c7041802b813bf6a3ed5"


def test_the_configuration_is_canonical_json_of_integers_and_texts():
    config = profile_config()
    canonical_json(config)
    assert not any(isinstance(value, float) for value in config.values())
    assert config["scoring_formula_ref"] == SCORING_FORMULA_REF
    assert [field["name"] for field in config["fields"]] == [field.name for field in RECORD_FIELDS]


def test_another_table_of_fields_is_another_configuration():
    assert profile_config_digest((Field("text", 1_000, 300, 20),)) != profile_config_digest()


def test_impacts_saturate_and_are_never_nothing():
    found = impacts(np.array([1e-9, 0.1, 0.9, 3.0, 1e9]))
    assert found.tolist() == [1, 26, 128, 196, 255]
    assert found.dtype == np.uint8


def test_a_text_at_the_pivot_is_neither_long_nor_short():
    field = Field("text", 2_000, 300, 100)
    assert field_factor(field, 100) == pytest.approx(2)
    assert field_factor(field, 50) > 2 > field_factor(field, 200)


def test_a_rare_term_weighs_more_and_a_frequent_one_something():
    assert term_weight(100, 1) > term_weight(100, 50) > term_weight(100, 100) >= 1
    assert term_weight(10**9, 10**9) == 1
    assert term_weight(1000, 3) == round(math.log(1001 / 3.5) * 100_000 / 255)
    assert term_weight(1000, 3, times=2) == 2 * term_weight(1000, 3)


@given(st.floats(min_value=0, max_value=1e12, exclude_min=True))
def test_one_impact_is_that_of_many(frequency):
    assert impact(frequency) == impacts(np.array([frequency]))[0]
