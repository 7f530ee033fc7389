"""`gpud policy why` and `gpud policy docs`."""

from pathlib import Path

from gpud.policies.codes import CODES
from tests.cli.policy.conftest import ROOT, Policy


def test_why_prints_the_page(policy: Policy) -> None:
    done = policy("why", "GP103")
    assert (done.returncode, done.stdout) == (0, (ROOT / "docs" / "errors" / "GP103.md").read_text())


def test_why_takes_what_people_type(policy: Policy) -> None:
    for typed in ("gp103", "103", "[GP103]"):
        assert policy("why", typed).stdout.startswith("# GP103: ")


def test_why_of_nothing_names_what_there_is(policy: Policy) -> None:
    done = policy("why", "GP999")
    assert done.returncode == 2
    assert all(code in done.stderr for code in CODES)
    assert policy("why").returncode == 2


def test_docs_is_the_reference(policy: Policy) -> None:
    done = policy("docs")
    assert done.returncode == 0
    written = ROOT / "docs" / "policy-reference.md"
    assert done.stdout == written.read_text(), f"write it: gpud policy docs > {written.relative_to(ROOT)}"


def test_every_verb_has_help(policy: Policy) -> None:
    from gpud.cli.policy.verb import VERBS

    listed = policy("--help").stdout
    for verb in VERBS:
        assert f"  {verb} " in listed
        done = policy(verb, "--help")
        assert done.returncode == 0, verb
        assert "Usage: gpud policy" in done.stdout


def test_every_link_of_the_documents_leads_somewhere() -> None:
    docs = ROOT / "docs"
    for name in ("policy-reference.md", "tutorial-policy.md"):
        assert name in (docs / "policy-language.md").read_text()
        assert (docs / name).is_file()
    assert Path(docs / "errors").is_dir()
