"""Any policy on any trace: the generated code decides what the plain reference decides."""

from hypothesis import HealthCheck, given, settings

from gpud.policies.compile import compile_policy
from tests.policies.arbitrary import SIGNALS, Trace, policies, traces
from tests.policies.programs import MONDAY, TICK, Run, resolved
from tests.policies.reference import Reference


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=policies, trace=traces)
def test_generated_code_decides_as_the_reference(text: str, trace: Trace) -> None:
    ir = resolved(text)
    run, reference = Run(compile_policy(ir)), Reference(ir)
    signals = {name: values[0] for name, values in SIGNALS.items()}
    read = {signal.text for signal in run.program.signals}
    for later, changed in [(0, {}), *trace]:
        end = run.now + later
        while True:
            if run.now + TICK >= end:
                signals |= changed
                now = end
            else:
                now = run.now + TICK
            run.set({name: value for name, value in signals.items() if name in read})
            run.tick(now)
            expected = reference.tick(now, MONDAY + now, signals)
            assert {name: run[name] for name in expected} == expected
            lets = dict(zip(run.program.lets, run.program.let_values(run.state), strict=True))
            assert list(lets.values()) == reference.lets
            if now >= end:
                break
