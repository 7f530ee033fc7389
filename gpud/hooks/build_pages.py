"""Writes the C source of the extension module `gpud.hooks._pages` (cffi, API mode).

    build_pages.py INCLUDE_DIR OUT.c

Definitions come from the headers themselves: the text between their `cffi: begin` and `cffi: end` lines, verbatim, so
that no struct is written down twice.
"""

import sys
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
HEADERS = ("gpud_page.h", "gpud_wire.h")
OWN_HEADERS = ("pages_native.h", "levels_native.h")

FUNCTIONS = """
void *gpud_map(int fd, size_t bytes, int writable);
void gpud_unmap(void *address, size_t bytes);
void gpud_pages_sum(const struct gpud_summed *clients, uint32_t count, struct gpud_sum *sums);
void gpud_histogram(const struct gpud_activity_page *page, uint32_t device, uint64_t *out);
void gpud_delays(const struct gpud_activity_page *page, uint32_t device, uint64_t *out);
void gpud_publish_device(struct gpud_control_page *page, uint32_t device, const struct gpud_control_device *words);
void gpud_publish_watched(struct gpud_control_page *page, uint32_t device, uint32_t watched);
void gpud_publish_lease(struct gpud_control_page *page, uint64_t until_ns);
void gpud_publish_failsafe(struct gpud_control_page *page, uint32_t failsafe, uint64_t after_ns);
void gpud_publish_detach(struct gpud_control_page *page);
uint32_t gpud_levels_step(struct gpud_divided *levels, uint64_t now);
void gpud_levels_look(struct gpud_divided *levels, uint64_t now);
void gpud_levels_advance(struct gpud_divided *levels, uint64_t now);
void gpud_levels_publish(struct gpud_divided *levels, uint64_t now);
uint32_t gpud_levels_state(const struct gpud_divided *levels, uint64_t now);
void gpud_divide(uint64_t amount, struct gpud_ask *asks, uint32_t count);
"""


def between_marks(header: Path) -> str:
    """The part of a header that cffi reads. Raises ValueError when a mark is missing."""
    text = header.read_text()
    begin, end = "/* cffi: begin */", "/* cffi: end */"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{header}: expected one line `{begin}` and one `{end}`")
    return text.split(begin)[1].split(end)[0]


def builder(include: Path) -> FFI:
    """The module's definition, from the headers in `include`."""
    ffi = FFI()
    for header in (*(include / name for name in HEADERS), *(HERE / name for name in OWN_HEADERS)):
        ffi.cdef(between_marks(header))
    ffi.cdef(FUNCTIONS)
    ffi.set_source("gpud.hooks._pages", "".join(f'#include "{name}"\n' for name in (*HEADERS, *OWN_HEADERS)))
    return ffi


if __name__ == "__main__":
    builder(Path(sys.argv[1])).emit_c_code(sys.argv[2])
