"""Shared test set-up: hypothesis draws the same cases everywhere unless told otherwise."""

import os

from hypothesis import settings

# A failure must repeat on the next run, and a slow machine must not fail a property.
settings.register_profile("ci", derandomize=True, deadline=None, database=None)
# For looking for new counterexamples: HYPOTHESIS_PROFILE=explore make test
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
