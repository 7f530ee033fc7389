"""The argument JOB of a verb: a job's number, its name where only one job has it, or a process of it: `pid:4711`."""

import difflib

import click

from gpud.cli.completing import jobs
from gpud.control.client import Client
from gpud.model.errors import UsageError
from gpud.model.text import one_line
from gpud.model.views import JobView

_SHOWN = 10
_MOST = 2**63
"""Numbers from here on cannot be asked about: no job has them."""

job_argument = click.argument("job", metavar="JOB", shell_complete=jobs)
"""For a verb about one job; `find_job` says which."""


def find_job(daemon: Client, job: str) -> int:
    """Its number. (That of a number is the number: the daemon says whether there is such a job.)

    Raises UsageError with the jobs that there are: nobody is called so, several are, the process is in no job.
    """
    if job.isascii() and job.isdigit() and int(job) < _MOST:
        return int(job)
    if job.startswith("pid:"):
        return daemon.job_of(_pid(job)).id
    found = daemon.ps()
    named = [one for one in found if one.name == job]
    if len(named) == 1:
        return named[0].id
    if named:
        raise UsageError(
            f"{len(named)} jobs are called {one_line(job)!r}: {', '.join(f'{one.id} of {one.user}' for one in named)}; "
            "give the number of one"
        )
    raise UsageError(f"there is no job {one_line(job)!r}; {_known(job, found)}")


def _pid(job: str) -> int:
    number = job.removeprefix("pid:")
    if not (number.isascii() and number.isdigit() and 0 < int(number) < 2**31):
        raise UsageError(f"{job!r} names no process; write pid: and its number, such as pid:4711")
    return int(number)


def _known(job: str, found: list[JobView]) -> str:
    if not found:
        return "there are no jobs now (gpud ps)"
    near = difflib.get_close_matches(job, [one.name for one in found], n=1)
    hint = f"did you mean {one_line(near[0])!r}? " if near else ""
    more = ", …" if len(found) > _SHOWN else ""
    return f"{hint}jobs now: {', '.join(f'{one.id} ({one.name})' for one in found[:_SHOWN])}{more} (gpud ps)"
