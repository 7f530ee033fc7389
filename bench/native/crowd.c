/* crowd: one of many clients, on its first device. Says `ready MS`, how long cuInit took (with gpud it waits for the attach there), and obeys lines on
 * stdin; between them it
 *
 *   idle          does nothing
 *   train         launches 50 times each 50 ms, and never waits
 *   serve         launches 50 times each 500 ms, from some moment on, and synchronises
 *   watch         launches once a millisecond, and notes when the daemon writes the levels of its own control page anew;
 *                 the next line ends that: `ticks N`, then the N times between two of them, in µs
 *
 * Ends with stdin. */
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "gpud_page.h"

#define TICKS 65536

static launch_fn launch;
static void *context;
static uint32_t ticks[TICKS], tick_count;
static uint64_t last_ns;

static void launches(int count)
{
    for (int i = 0; i < count; i++)
        if (launch(context, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
            exit(1);
}

/* The control page that the hook has mapped; NULL: there is none. */
static const struct gpud_control_page *control_page(void)
{
    static const struct gpud_control_page *found;
    char line[512];
    FILE *maps = found ? NULL : fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        uintptr_t at;
        const struct gpud_page_header *header;
        if (!strstr(line, "memfd:gpud-page") || sscanf(line, "%lx", &at) != 1)
            continue;
        header = (const struct gpud_page_header *)at; // NOLINT: the kernel says that it is there
        if (header->magic == GPUD_PAGE_MAGIC && header->version == GPUD_PAGE_VERSION && header->kind == GPUD_PAGE_CONTROL)
            found = (const struct gpud_control_page *)at;
    }
    if (maps)
        fclose(maps);
    return found;
}

/* When the levels were written last, of any device; 0: never. */
static uint64_t levels_ns(void)
{
    const struct gpud_control_page *page = control_page();
    uint64_t newest = 0;
    for (int slot = 0; page && slot < GPUD_MAX_DEVICES; slot++) {
        uint64_t cap = __atomic_load_n(&page->device[slot].cap_t0_ns, __ATOMIC_RELAXED);
        uint64_t share = __atomic_load_n(&page->device[slot].share_t0_ns, __ATOMIC_RELAXED);
        newest = cap > newest ? cap : newest;
        newest = share > newest ? share : newest;
    }
    return newest;
}

static void watch(void)
{
    uint64_t now = levels_ns();
    launches(1);
    if (now == last_ns)
        return;
    if (last_ns && tick_count < TICKS)
        ticks[tick_count++] = (uint32_t)((now - last_ns) / 1000);
    last_ns = now;
}

static void report(void)
{
    printf("ticks %u\n", tick_count);
    for (uint32_t i = 0; i < tick_count; i++)
        printf("%u\n", ticks[i]);
    fflush(stdout);
    tick_count = 0;
    last_ns = 0;
}

int main(void)
{
    char mode[64] = "idle\n";
    struct pollfd input = {.fd = 0, .events = POLLIN};
    driver_entry("cuInit");
    long long before = clock_ns(CLOCK_MONOTONIC);
    CALL(cuInit, 0u);
    double took_ms = (double)(clock_ns(CLOCK_MONOTONIC) - before) / 1e6;
    CALL(cuCtxCreate_v2, &context, 0u, 0);
    launch = (launch_fn)driver_entry("cuLaunchKernel");
    printf("ready %.3f\n", took_ms);
    fflush(stdout);
    for (bool first = true;;) {
        bool trains = !strcmp(mode, "train\n"), serves = !strcmp(mode, "serve\n"), watches = !strcmp(mode, "watch\n");
        int rest = trains ? 50 : serves ? 500 : watches ? 1 : -1;
        if (first && serves)
            rest = getpid() * 7919 % 500;
        first = false;
        if (poll(&input, 1, rest) > 0) {
            if (watches)
                report();
            if (!fgets(mode, sizeof mode, stdin))
                return 0;
            first = true;
            continue;
        }
        if (watches)
            watch();
        else
            launches(50);
        if (serves)
            CALL(cuCtxSynchronize);
    }
}
