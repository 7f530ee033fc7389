import os
import re
from pathlib import Path

import pytest

from gpud.config import VARIABLES, check_runtime_dir, load_config, make_runtime_dir, unknown_variables
from gpud.config_file import ControlConfig, JournalConfig, read_config_files
from gpud.daemon import sim_environment
from gpud.model.errors import SetupError, UsageError
from gpud.native import shipped_policies

ROOT = Path(__file__).parents[2]


def test_variables_are_those_of_the_table() -> None:
    table = (ROOT / "hooks-native" / "tbl" / "env.h").read_text()
    assert sorted(re.findall(r'^ENV\("(\w+)"', table, re.MULTILINE)) == sorted(VARIABLES)


def test_defaults(tmp_path: Path) -> None:
    config = load_config({"GPUD_RUNTIME_DIR": str(tmp_path)})
    assert (config.hook_socket, config.control_socket) == (tmp_path / "hook.sock", tmp_path / "control.sock")
    assert config.sim is None
    assert config.log_level == "warning"
    assert (config.policies_by, config.applied, config.claims) == ("default", None, {})
    assert config.state_dir == tmp_path / "state"


def test_flags_go_before_variables(tmp_path: Path) -> None:
    environ = {"GPUD_RUNTIME_DIR": "/elsewhere", "GPUD_LOG": "error", "GPUD_SIM_PROFILE": "h200"}
    config = load_config(
        environ, runtime_dir=str(tmp_path), log="debug", sim="test-small", policies="/mine", policy="p(x = 1)"
    )
    assert config.runtime_dir == tmp_path
    assert config.log_level == "debug"
    assert config.sim is not None
    assert config.sim.profile == "test-small"
    assert (config.policies, config.policies_by, config.applied) == (Path("/mine"), "--policies", "p(x = 1)")
    assert load_config(environ, sim="").sim.profile == "h200"  # type: ignore[union-attr]


def test_no_xdg_runtime_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_config({"XDG_RUNTIME_DIR": "/run/user/7"}).runtime_dir == Path("/run/user/7/gpud")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert load_config({}).runtime_dir == Path("/run/gpud")
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert load_config({}).runtime_dir == Path("/tmp/gpud-54321")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("GPUD_LOG", "loud", "'loud' is not one of error, warning, info, debug"),
        ("GPUD_DISABLE", "yes", "neither 0 nor 1"),
        ("GPUD_RUNTIME_DIR", "here", "not an absolute path"),
        ("XDG_RUNTIME_DIR", "here", "not an absolute path"),
        ("GPUD_SIM_DEVICES", "9", "from 1 to 8"),
        ("GPUD_SIM_DEVICES", "two", "from 1 to 8"),
        ("GPUD_SIM_TIME_SCALE", "nan", "from 0.001 to 1000"),
        ("GPUD_SIM_TIME_SCALE", "fast", "from 0.001 to 1000"),
        ("GPUD_SIM_NODE", "a/b", "letters"),
        ("GPUD_SIM_NODE", "x" * 65, "1 to 64"),
        ("GPUD_POLICIES", "here", "not an absolute path"),
        ("GPUD_STATE_DIR", "here", "not an absolute path"),
        ("XDG_STATE_HOME", "here", "not an absolute path"),
        ("XDG_CONFIG_HOME", "here", "not an absolute path"),
    ],
)
def test_garbage_names_the_variable(name: str, value: str, says: str) -> None:
    with pytest.raises(UsageError, match=rf"^{name}: ") as caught:
        load_config({name: value})
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("flag", "value"),
    [("log", "loud"), ("runtime_dir", "here"), ("policies", "a\0b")],
)
def test_garbage_names_the_flag(flag: str, value: str) -> None:
    with pytest.raises(UsageError, match=rf"^--{flag.replace('_', '-')}: "):
        load_config({}, **{flag: value})  # type: ignore[arg-type]


def test_socket_path_of_107_bytes_is_the_longest() -> None:
    fits = "/" + "d" * (107 - len("/control.sock") - 1)
    assert len(str(load_config({"GPUD_RUNTIME_DIR": fits}).control_socket)) == 107
    with pytest.raises(UsageError, match=r"GPUD_RUNTIME_DIR.*has 108 bytes, 107 are possible") as caught:
        load_config({"GPUD_RUNTIME_DIR": fits + "d"})
    assert "shorter" in str(caught.value)


def test_unknown_variables_are_found() -> None:
    assert unknown_variables({"GPUD_LGO": "info", "GPUD_LOG": "info", "PATH": ""}) == ["GPUD_LGO"]


def test_runtime_dir_is_made_for_us_alone(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "gpud"
    make_runtime_dir(directory)
    assert directory.stat().st_mode & 0o777 == 0o700


def test_runtime_dir_of_a_daemon_for_everybody(tmp_path: Path) -> None:
    """Whatever the umask says; one that was there is as its maker wants it."""
    before = os.umask(0o077)
    try:
        make_runtime_dir(tmp_path / "new", everybody=True)
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o755
    check_runtime_dir(tmp_path / "new")
    (tmp_path / "closed").mkdir(mode=0o700)
    make_runtime_dir(tmp_path / "closed", everybody=True)
    assert (tmp_path / "closed").stat().st_mode & 0o777 == 0o700


def test_unsafe_runtime_dirs(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(SetupError, match=r"others may write.*chmod 0700"):
        check_runtime_dir(open_to_all)
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match=r"not a directory"):
        check_runtime_dir(tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(SetupError, match=r"not a directory"):
        check_runtime_dir(tmp_path / "link")
    with pytest.raises(SetupError, match=r"cannot make the runtime directory"):
        make_runtime_dir(tmp_path / "file" / "gpud")
    check_runtime_dir(tmp_path / "absent")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_runtime_dir_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "theirs"
    directory.mkdir(mode=0o700)
    os.chown(directory, 54321, 54321)
    with pytest.raises(SetupError, match=r"belongs to user 54321"):
        check_runtime_dir(directory)


def test_time_scale_is_the_profiles_unless_given() -> None:
    sim = load_config({"GPUD_RUNTIME_DIR": "/tmp/x"}, sim="a100-40gb-demo").sim
    assert sim is not None
    assert sim.time_scale is None
    assert "GPUD_SIM_TIME_SCALE" not in sim_environment(sim)
    sim = load_config({"GPUD_RUNTIME_DIR": "/tmp/x", "GPUD_SIM_TIME_SCALE": "2.5"}, sim="").sim
    assert sim is not None
    assert sim_environment(sim)["GPUD_SIM_TIME_SCALE"] == "2.5"


def test_paths_for_the_simulator_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job starts in another directory than the daemon."""
    monkeypatch.chdir(tmp_path)
    environ = {"GPUD_RUNTIME_DIR": "/tmp/x", "GPUD_SIM_LOG": "device.jsonl"}
    sim = load_config(environ, sim="mine.toml").sim
    assert sim is not None
    assert (sim.profile, sim.log) == (str(tmp_path / "mine.toml"), str(tmp_path / "device.jsonl"))
    assert load_config(environ, sim="a100-40gb").sim.profile == "a100-40gb"  # type: ignore[union-attr]


def test_which_directory_of_policies_it_is(tmp_path: Path, etc: Path) -> None:
    """Each next one goes before all that came earlier."""
    environ = {"GPUD_RUNTIME_DIR": "/x", "XDG_CONFIG_HOME": str(tmp_path)}
    ours = tmp_path / "gpud"
    ours.mkdir()
    assert load_config(environ).policies == shipped_policies()
    (etc / "policies").mkdir()
    assert load_config(environ).policies == etc / "policies"
    (ours / "policies").mkdir()
    assert load_config(environ).policies == ours / "policies"
    (etc / "gpud.toml").write_text('policies = "/srv/policies"')
    found = load_config(environ)
    assert (found.policies, found.policies_by) == (Path("/srv/policies"), "gpud.toml")
    (ours / "gpud.toml").write_text('policies = "mine"')
    assert load_config(environ).policies == ours / "mine"
    environ["GPUD_POLICIES"] = "/by/variable"
    assert load_config(environ).policies == Path("/by/variable")
    assert load_config(environ, policies="by/flag").policies == Path.cwd() / "by" / "flag"


def test_the_shipped_policies_are_there() -> None:
    assert (shipped_policies() / "preempt-mix.gpol").is_file()


def test_where_the_state_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several daemons never share one unless they are told to."""
    assert load_config({"GPUD_RUNTIME_DIR": "/x"}).state_dir == Path("/x/state")
    assert load_config({"HOME": "/h"}, runtime_dir="/y").state_dir == Path("/y/state")
    assert load_config({"GPUD_RUNTIME_DIR": "/x", "GPUD_STATE_DIR": "/z"}).state_dir == Path("/z")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert load_config({"HOME": "/root"}).state_dir == Path("/var/lib/gpud")
    assert load_config({"HOME": "/root"}).system
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert load_config({"HOME": "/h"}).state_dir == Path("/h/.local/state/gpud")
    assert load_config({"HOME": "/h", "XDG_STATE_HOME": "/s"}).state_dir == Path("/s/gpud")
    assert not load_config({"HOME": "/h"}).system


def test_claims(tmp_path: Path, etc: Path) -> None:
    environ = {"GPUD_RUNTIME_DIR": "/x", "XDG_CONFIG_HOME": str(tmp_path)}
    (etc / "gpud.toml").write_text('[claims]\ntier = ["@ml-serving", "ann"]\nclass = []\n')
    assert load_config(environ).claims == {"tier": ("@ml-serving", "ann"), "class": ()}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("policies = ", ": it is not TOML: "),
        ("polices = '/x'", ":1: nothing is called 'polices'; known are policies, claims, plugins, control"),
        ("policies = 3", ":1: policies: 3 is not the name of a directory"),
        ("policies = ''", ":1: policies: '' is not the name of a directory"),
        ("claims = ['a']", ":1: claims: ['a'] is not a table; write [claims]"),
        ("[claims]\ntier = '@a'", ":2: claims.tier: '@a' is not a list of claimants; write tier = ["),
        ("[claims]\ntier = [1]", ":2: claims.tier: [1] is not a list"),
        ("plugins = 3", ":1: plugins: 3 is not a table of tables"),
        ("[plugins]\nvllm = 3", ":2: plugins: {'vllm': 3} is not a table of tables"),
        ("[claims]\ntier = ['@']", ":2: claims.tier: ['@'] is not a list"),
        ("control = 3", ":1: control: 3 is not a table; write [control]"),
        ("# x\n[ 'control' ] # y\n'writers' = 'a'", ":3: nothing of control is called 'writers'; known are operators,"),
        ("[claims]\nreaders = []\n[control]\nreaders = 'all'", ":4: control.readers: 'all' is not one of everyone,"),
        ("control.operators = 3", ":1: control.operators: 3 is no name"),
        ("[control]\noperators = ''", ":2: control.operators: '' is no name"),
        ("journal = true", ":1: journal: True is not a table; write [journal]"),
        ("[journal]\nsize = 3", ":2: nothing of journal is called 'size'; known are directory, max_bytes"),
        ("[journal]\ndirectory = ''", ":2: journal.directory: '' is no directory"),
        ("[journal]\nmax_bytes = 1000", ":2: journal.max_bytes: 1000 is neither 0 (no journal) nor a number of bytes"),
        ("[journal]\nmax_bytes = true", ":2: journal.max_bytes: True is neither 0"),
        ("[journal]\nmax_bytes = '1GiB'", ":2: journal.max_bytes: '1GiB' is neither 0"),
    ],
)
def test_garbage_in_gpud_toml_names_file_line_and_key(etc: Path, text: str, says: str) -> None:
    (etc / "gpud.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        load_config({"GPUD_RUNTIME_DIR": "/x"})
    assert str(caught.value).startswith(f"{etc}/gpud.toml{says}")


def test_control(tmp_path: Path, etc: Path) -> None:
    environ = {"GPUD_RUNTIME_DIR": "/x", "XDG_CONFIG_HOME": str(tmp_path)}
    assert load_config(environ).control == ControlConfig("gpud-operators", "everyone")
    (etc / "gpud.toml").write_text('[control]\noperators = "wheel"\nreaders = "owners"\n')
    assert load_config(environ).control == ControlConfig("wheel", "owners")
    (tmp_path / "gpud").mkdir()
    (tmp_path / "gpud" / "gpud.toml").write_text('[control]\nreaders = "operators"\n')
    assert load_config(environ).control == ControlConfig("wheel", "operators")


def test_journal(tmp_path: Path, etc: Path) -> None:
    environ = {"GPUD_RUNTIME_DIR": "/x", "XDG_CONFIG_HOME": str(tmp_path)}
    assert load_config(environ).journal == JournalConfig(None, 256 << 20)
    assert load_config(environ).journal_dir == Path("/x/state/journal")
    (etc / "gpud.toml").write_text('[journal]\ndirectory = "past"\nmax_bytes = 0\n')
    assert load_config(environ).journal == JournalConfig(etc / "past", 0)
    (tmp_path / "gpud").mkdir()
    (tmp_path / "gpud" / "gpud.toml").write_text("[journal]\nmax_bytes = 1048576\n")
    assert load_config(environ).journal == JournalConfig(etc / "past", 1 << 20)
    assert load_config(environ).journal_dir == etc / "past"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "[" * 100_000, "it is nested too deeply"),
        ("policies = " + "9" * 6000, "it is not TOML: Exceeds the limit"),
        ("# " + "x" * (1 << 20), "it has more than 1 MiB"),
        ("[plugins.vllm]\nsince = 2020-01-01", "plugins.vllm.since: a date or time is no setting"),
        ("[plugins.vllm]\nmore = [{at = [10:00:00]}]", "plugins.vllm.more: a date or time is no setting"),
    ],
)
def test_a_gpud_toml_beyond_reason(etc: Path, text: str, says: str) -> None:
    (etc / "gpud.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_config_files({})
    assert says in str(caught.value)


def test_a_gpud_toml_that_is_a_pipe_is_not_waited_for(etc: Path) -> None:
    os.mkfifo(etc / "gpud.toml")
    with pytest.raises(UsageError, match=r"gpud.toml: it is no regular file"):
        read_config_files({})
    (etc / "gpud.toml").unlink()
    (etc / "gpud.toml").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=r"gpud.toml: it is no regular file"):
        read_config_files({})


def test_a_gpud_toml_that_cannot_be_read(etc: Path) -> None:
    (etc / "gpud.toml").write_bytes(b"policies = '\xff'")
    with pytest.raises(UsageError, match=r"gpud.toml: it is not UTF-8 text"):
        load_config({"GPUD_RUNTIME_DIR": "/x"})
    (etc / "gpud.toml").unlink()
    (etc / "gpud.toml").mkdir()
    with pytest.raises(UsageError, match=r"cannot read .*gpud.toml: Is a directory"):
        load_config({"GPUD_RUNTIME_DIR": "/x"})
