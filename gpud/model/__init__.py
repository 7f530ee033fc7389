"""The words of gpud: ids, units, events, effects, knobs, views, errors. No I/O; imports nothing else of gpud."""
