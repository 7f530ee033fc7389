/* env.h: every environment variable gpud reads. ENV(name, who, meaning). Expanded by C, checked against the docs by a test.
 * Garbage in any of them is an error that names the variable, what was wrong and what is allowed (in the hook: a line on
 * stderr once, and the default). */
ENV("GPUD_DISABLE", "hook", "1: hard bypass, checked first")
ENV("GPUD_RUNTIME_DIR", "all", "directory of hook.sock, control.sock, state; default $XDG_RUNTIME_DIR/gpud, /run/gpud for root, /run/user/UID/gpud where there is one, else /tmp/gpud-UID")
ENV("GPUD_LOG", "hook, daemon", "error, warning (default), info, debug")
ENV("GPUD_NATIVE_DIR", "python, simulator", "where libgpud_hook.so and sim/ are; default inside the package; of a simulated driver: where it is itself")
ENV("GPUD_POLICIES", "daemon", "directory of the policies; default as gpud.toml says, $XDG_CONFIG_HOME/gpud/policies, /etc/gpud/policies, else those that came with gpud")
ENV("GPUD_STATE_DIR", "daemon", "directory of what outlives a restart: the policies that ran; default GPUD_RUNTIME_DIR/state where that is set, /var/lib/gpud for root, else $XDG_STATE_HOME/gpud or ~/.local/state/gpud")
ENV("GPUD_REAL_LIBCUDA", "hook", "path of the driver library to load instead of libcuda.so.1 (tests)")
ENV("GPUD_SIM_NODE", "simulator", "name of the simulated node; processes with the same name share its devices")
ENV("GPUD_SIM_PROFILE", "simulator", "profile name or path of a .toml; default a100-40gb")
ENV("GPUD_SIM_DEVICES", "simulator", "how many devices, 1 … 8; default 1")
ENV("GPUD_SIM_MODE", "simulator", "how contexts share a device: timeslice, mps, or mig: and a list of instances (mig:3g,3g); default: as the profile says, else timeslice")
ENV("GPUD_SIM_TIME_SCALE", "simulator", "wall time = model time × this; default: as the profile says, else 1")
ENV("GPUD_SIM_LOG", "simulator", "file the device process writes its log to (JSON lines)")
ENV("GPUD_SIM_FAULTS", "simulator", "which driver calls fail, stall or end the process, and when; devices that fall off the bus (docs/simulator.md)")
ENV("GPUD_SIM_PYTHON", "simulator", "interpreter that runs the PTX compiler; default the one of this installation")
ENV("GPUD_SIM_CACHE", "simulator", "directory of compiled kernels; default $XDG_CACHE_HOME/gpud/ptx or ~/.cache/gpud/ptx")
