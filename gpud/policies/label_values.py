"""Values that a policy reads from a job's labels: `label_bytes`, `label_percent`, and the limits made of them. Pure."""

import re
from collections.abc import Mapping

from gpud.model.errors import Refused
from gpud.policies.ir import IrClass
from gpud.policies.values import Choice, LabelValue

_NUMBER = re.compile(r"([0-9][0-9_]*)(\.[0-9]+)?([A-Za-z%]+)")
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_MIB = 2**20
_FORMS = {
    "bytes": "an amount of memory in whole MiB, such as 8GiB or 24576MiB",
    "percent": "a whole percentage from 1% to 100%, such as 15%",
}


def read_label(kind: str, key: str, text: str) -> int:
    """`label_bytes` in bytes, `label_percent` in percent. Raises Refused with key, value and the right form."""
    found = _NUMBER.fullmatch(text)
    value: int | None = None
    if found and len(text) <= 32:
        whole, fraction, unit = found.groups()
        scale = 1 if kind == "percent" and unit == "%" else _BYTES.get(unit) if kind == "bytes" else None
        digits = (fraction or ".")[1:]
        if scale is not None:
            value, rest = divmod(int(whole.replace("_", "") + digits) * scale, 10 ** len(digits))
            value = None if rest else value
    if value is not None and (0 < value <= 100 if kind == "percent" else value > 0 and value % _MIB == 0):
        return value
    raise Refused(
        f"the label {key}={text} is not {_FORMS[kind]}; write --label {key}={'15%' if kind == 'percent' else '8GiB'}"
    )


def limits(job_class: IrClass, labels: Mapping[str, str]) -> dict[str, object]:
    """What `limit { … }` of a class means for a tenant with these labels: values as gpud.policies.types says. Raises
    Refused for a label that is there and cannot be read; one that is not there has its default."""
    if job_class.limit is None:
        return {}
    return {name: _limit(setting.value, labels) for name, setting in job_class.limit.settings.items()}


def _limit(value: object, labels: Mapping[str, str]) -> object:
    if isinstance(value, Choice) and isinstance(value.argument, LabelValue):
        return Choice(value.word, _limit(value.argument, labels))
    if not isinstance(value, LabelValue):
        return value
    if value.key not in labels:
        return value.default
    read = read_label(value.kind, value.key, labels[value.key])
    return read / 100 if value.kind == "percent" else read


def readable(job_class: IrClass, labels: Mapping[str, str]) -> dict[str, object]:
    """Likewise of a tenant that is in, perhaps by other policies: a label that cannot be read counts as one that is not
    there."""
    found = {}
    for name, setting in job_class.limit.settings.items() if job_class.limit is not None else ():
        try:
            found[name] = _limit(setting.value, labels)
        except Refused:
            found[name] = _limit(setting.value, {})
    return found
