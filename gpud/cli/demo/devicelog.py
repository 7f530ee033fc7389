"""The reader of device logs, as the demo and the benches know it."""

from gpud.cli.sim.devicelog import BadLog as BadLog
from gpud.cli.sim.devicelog import DeviceLog as DeviceLog
from gpud.cli.sim.devicelog import Header as Header
from gpud.cli.sim.devicelog import Kernel as Kernel
from gpud.cli.sim.devicelog import parse as parse
from gpud.cli.sim.devicelog import read_log as read_log
