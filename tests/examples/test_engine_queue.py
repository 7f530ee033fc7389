"""The example plugin: the number on the metrics page of a serving engine becomes its signal."""

import importlib.util
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest
import trio

EXAMPLE = Path(__file__).parents[2] / "examples/engine_queue"
PAGE = """\
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="a b} c"} 30.0
vllm:num_requests_waiting{engine="1",model_name="x"} 3.0 1700000000000
vllm:num_requests_waiting_total 7
"""


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpud_engine_queue", EXAMPLE / "gpud_engine_queue.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Engine(BaseHTTPRequestHandler):
    """A serving engine's metrics page; `answers` is what it says, None: it hangs up."""

    answers: str | None = PAGE

    def do_GET(self) -> None:
        if self.answers is None:
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answers.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture
def engine() -> Iterator[str]:
    Engine.answers = PAGE
    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()
        thread.join()


def test_the_sum_over_all_label_sets_counts(example: ModuleType) -> None:
    assert example.waiting(PAGE, "vllm:num_requests_waiting") == 33
    assert example.waiting("vllm:num_requests_waiting 5\n", "vllm:num_requests_waiting") == 5
    assert example.waiting(PAGE, "no_such_metric") is None


async def test_it_publishes_what_the_engine_says_and_missing_when_it_does_not(
    example: ModuleType, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(example, "EVERY_S", 0.01)
    send, receive = trio.open_memory_channel[tuple[str, str, object]](1000)
    settings = {"url": engine, "metric": "vllm:num_requests_waiting", "class": "serving"}
    with trio.fail_after(60):
        async with example.open_queue(lambda *sample: send.send_nowait(sample), settings):
            assert await receive.receive() == ("depth", "serving", 33)
            for answer in (None, "nonsense", "vllm:num_requests_waiting many\n"):
                Engine.answers = answer
                while (await receive.receive())[2] is not None:
                    pass
            Engine.answers = PAGE
            while (await receive.receive())[2] != 33:
                pass


async def test_a_missing_setting_is_named(example: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"\[plugins.engine_queue\] needs metric"):
        async with example.open_queue(lambda *sample: None, {"url": "http://127.0.0.1:1"}):
            pass
