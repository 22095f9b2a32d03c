"""How thorough property tests are: ``--hypothesis-profile=thorough`` tries many more examples, as `make soak` does."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A machine that is busy with brokers is slow: no law is broken by that.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("quick", _PATIENT, max_examples=30)
settings.register_profile("thorough", _PATIENT, max_examples=1000)
settings.load_profile("quick")
