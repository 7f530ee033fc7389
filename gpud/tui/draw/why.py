"""What holds for a job, and the line of the policy that says so: the answer of the daemon to `why`."""

from gpud.model.views import ExplainView, WhyDevice, WhyView
from gpud.tui.text import Line, Span, clean, line_of, rule, wrap


def why_lines(why: WhyView, width: int) -> list[Line]:
    """Of all its devices, the first line that has something to say first."""
    job = why.job
    head = f"{clean(job.name)} of {clean(job.user)}: {clean(job.state)}, class {clean(job.job_class) or 'none'}"
    lines = [line_of([Span(head, "strong")], width)]
    if why.hold is not None:
        lines += [line_of([Span(part, "warn")], width) for part in wrap(clean(why.hold.text), width, 4)]
    for one in why.job.classes:
        how = {"match": "by its match", "pinned": "pinned", "none": "no class of it takes this job"}.get(
            one.how, one.how
        )
        text = f"{clean(one.policy)}: " + (f"{clean(one.job_class)}, {how}" if one.job_class else how)
        lines.append(line_of([Span(text, "dim")], width))
    for device in why.devices:
        lines += [Line(), *_device(device, width)]
    if not why.devices:
        lines.append(line_of([Span("it has no device yet", "dim")], width))
    for lock in job.lock:
        lines += [line_of([Span(part)], width) for part in wrap(f"gpu {lock.device}: {clean(lock.text)}", width, 2)]
    return lines


def _device(device: WhyDevice, width: int) -> list[Line]:
    policies = clean(", ".join(device.policies)) or "no policy"
    ranked = f", rank {device.rank} (0 is the highest)" if device.arbiter == "preempt" else ""
    lines = [rule(f"gpu {device.device}  {policies}: {clean(device.arbiter)}{ranked}", width)]
    lines += [line_of([Span(clean(note), "warn")], width) for note in device.notes]
    built_in = [knob for knob in device.knobs if not knob.because.line and not knob.because.by and knob.in_force]
    for knob in device.knobs:
        if knob not in built_in:
            lines += _knob(knob, width)
    if built_in:
        names = ", ".join(dict.fromkeys(knob.because.knob.rpartition(".")[2] for knob in built_in))
        lines += [line_of([Span(part, "dim")], width) for part in wrap(f"as built in: {clean(names)}", width, 3)]
    return lines


def _knob(view: ExplainView, width: int) -> list[Line]:
    because = view.because
    spans = [Span(clean(because.knob), "strong"), Span(f" = {clean(because.value)}")]
    if not view.in_force:
        spans.append(Span("   another policy is tighter", "dim"))
    place = f"{clean(because.file)}:{because.line}" if because.line else clean(because.by)
    lines = [line_of(spans, width), line_of([Span(f"    {place}", "key"), Span(f"  {clean(because.rule)}")], width)]
    lines += [line_of([Span(f"    inside {clean(around)}", "dim")], width) for around in because.inside]
    if because.because:
        lines.append(line_of([Span(f"    because {clean(because.because)}", "dim")], width))
    lines += [line_of([Span(f"    {clean(name)} = {clean(value)}", "dim")], width) for name, value in because.inputs]
    return lines
