"""`[metrics]` in gpud.toml."""

from pathlib import Path

import pytest

from gpud.config import load_config
from gpud.config_file import MetricsConfig
from gpud.model.errors import UsageError
from tests.config_files import configured


def read(etc: Path, text: str, user: str = "") -> MetricsConfig:
    return configured(etc, text, user).metrics


def test_without_it_there_is_the_socket_alone(etc: Path) -> None:
    found = read(etc, "")
    assert found == MetricsConfig("", False, "")
    assert found.address is None
    assert load_config({"GPUD_RUNTIME_DIR": "/x"}).metrics_socket == Path("/x/metrics.sock")


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:9400", ("127.0.0.1", 9400)),
        ("127.1.2.3:1", ("127.1.2.3", 1)),
        ("localhost:65535", ("127.0.0.1", 65535)),
        ("[::1]:9400", ("::1", 9400)),
    ],
)
def test_loopback(etc: Path, listen: str, address: tuple[str, int]) -> None:
    assert read(etc, f'[metrics]\nlisten = "{listen}"\n').address == address


@pytest.mark.parametrize("listen", ["0.0.0.0:9400", "[::]:9400", "10.0.0.1:9400", "[fe80::1]:9400"])
def test_what_other_machines_reach_must_be_meant(etc: Path, listen: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(etc, f'[metrics]\nlisten = "{listen}"\n')
    assert str(caught.value) == (
        f"{etc}/gpud.toml:2: metrics.listen: other machines could read metrics at {listen}, without a password; "
        'write listen = "127.0.0.1:9400", or, if that is meant, allow_remote = true beside it'
    )
    assert read(etc, f'[metrics]\nlisten = "{listen}"\nallow_remote = true\n').listen == listen


def test_a_users_own_goes_before(etc: Path) -> None:
    system = '[metrics]\nlisten = "127.0.0.1:1"\ndcgm_mapping_dir = "/a"\n'
    assert read(etc, system, '[metrics]\nlisten = "127.0.0.1:2"\n') == MetricsConfig("127.0.0.1:2", False, "/a")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("metrics = true", ":1: metrics: True is not a table; write [metrics] and below it listen ="),
        ("[metrics]\nport = 1", ":2: nothing of metrics is called 'port'; known are listen, allow_remote, dcgm"),
        ("[metrics]\nallow_remote = 1", ":2: metrics.allow_remote: 1 is neither true nor false"),
        ('[metrics]\ndcgm_mapping_dir = "map"', ":2: metrics.dcgm_mapping_dir: 'map' is not an absolute path"),
        ('[metrics]\ndcgm_mapping_dir = "/a\\u0000"', ":2: metrics.dcgm_mapping_dir: '/a\\x00' is not an absolute"),
        *(
            (f"[metrics]\nlisten = {said}", ":2: metrics.listen: ")
            for said in ('""', "9400", '"9400"', '":9400"', '"127.0.0.1"', '"127.0.0.1:0"', '"127.0.0.1:65536"',
                         '"127.0.0.1:99999999999999999999"', '"::1:9400"', '"[127.0.0.1]:9400"', '"[::1"',
                         '"node7:9400"',
                         '"127.0.0.1:٣"', '"127.0.0.1:-1"', '"unix:/x"', "[]", "true")
        ),
    ],
)  # fmt: skip
def test_garbage_names_file_line_and_key(etc: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(etc, text)
    assert str(caught.value).startswith(f"{etc}/gpud.toml{says}")
