"""A property fails for what it says, not because the machine was busy: no example has a deadline of its own."""

from hypothesis import HealthCheck, settings

settings.register_profile("policies", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("policies")
