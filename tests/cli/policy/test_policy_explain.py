"""`gpud policy explain`."""

import json
from pathlib import Path

from tests.cli.policy.conftest import Policy


def test_a_policy_of_the_configured_directory(policy: Policy) -> None:
    done = policy("explain", "preempt-mix")
    assert done.returncode == 0
    assert done.stdout.startswith('policy "preempt-mix"   arbitrate preempt   cost ')
    assert "  resume_after      = 3ms\n" in done.stdout


def test_arguments_and_several(policy: Policy) -> None:
    done = policy("explain", "preempt-mix(quiet = 7ms), quotas")
    assert done.returncode == 0
    assert "  resume_after      = 7ms\n" in done.stdout
    assert '\npolicy "quotas"   only tightens   cost ' in done.stdout


def test_a_policy_elsewhere(policy: Policy) -> None:
    done = policy("explain", "good", "--policies", "good.gpol")
    assert done.returncode == 0
    assert 'high       label("tier") == "online"' in done.stdout


def test_json(policy: Policy) -> None:
    (one,) = json.loads(policy("explain", "--json", "tidal-mix").stdout)
    assert (one["policy"], one["arbiter"]) == ("tidal-mix", "share")
    assert [each["name"] for each in one["classes"]] == ["serving", "training", "other"]
    guard = next(rule for rule in one["rules"] if rule["rule"].startswith("guard"))
    assert guard["because"] == "serving is slow"
    assert guard["reads"] == ["serving.wait_p99"]


def test_what_is_not_there_or_wrong(policy: Policy, files: Path) -> None:
    done = policy("explain", "preempt-mx")
    assert done.returncode == 1
    assert "no policy is called `preempt-mx`" in done.stdout
    assert "did you mean `preempt-mix`?" in done.stdout
    done = policy("explain", "preempt-mix(quiet = 3)")
    assert done.returncode == 1
    assert "error[GP" in done.stdout
    done = policy("explain", "preempt-mix(")
    assert done.returncode == 1
    assert policy("explain", "").returncode == 1
    assert policy("explain", "good", "--policies", "wrong.gpol").returncode == 1
    assert policy("explain", "good", "--policies", "absent").returncode == 2
    assert policy("explain").returncode == 2
