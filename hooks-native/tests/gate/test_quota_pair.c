/* test_quota_pair.c: processes of one tenant reserve at the same instant, again and again: never more than the limit together, and nobody
 * is refused for good. What they hold is counted apart, in memory that they share. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "daemon.h"
#include "quota.h"

#define PROCESSES 3
#define GIVEN 200000            /* reservations that each of them gets */
#define PIECES 4                /* so many fit below the limit … */
#define PIECE UINT64_C(1000)

static struct common {
    uint32_t ready, holding, worst, refused;
} *common;
static int pages[PROCESSES];

static void meet(void)
{
    gpud_add_total(&common->ready, 1);
    while (gpud_load_total(&common->ready) < PROCESSES)
        gpud_relax();
}

/* Own page and those of the siblings, as the keeper maps them. */
static void attach(int me)
{
    struct gpud_control_device *knobs = &local_control()->device[0];

    gpud_start();
    fake_context(0);
    gpud_map_own(pages[me], player_page(GPUD_PAGE_ACTIVITY, GPUD_ACTIVITY_BYTES, 1));
    for (int i = 0; i < PROCESSES; i++) {
        if (i == me)
            continue;
        CHECK(gpud_map_peer((uint32_t)i, pages[i]) == 0, "the sibling's page");
        knobs->peers[knobs->peer_count++] = (struct gpud_peer){ .generation = 100 + (uint64_t)i, .present = (uint32_t)i,
                                                               .flags = GPUD_PEER_OWN };
    }
    local_control()->header.client = (uint32_t)me + 1;
    knobs->memory_limit = PIECES * PIECE;
    local_attach(1);
}

/* Two pieces at once now and then, so that they hold different amounts. */
static void take_and_give(int me)
{
    for (uint32_t given = 0; given < GIVEN;) {
        uint32_t pieces = 1 + (given + (uint32_t)me) % 2;
        if (!gpud_quota_take(0, pieces * PIECE)) {
            gpud_add(&common->refused, 1);
            continue;
        }
        uint32_t now = gpud_add_total(&common->holding, pieces) + pieces;
        if (now > gpud_load(&common->worst))
            gpud_store(&common->worst, now);
        CHECK(now <= PIECES, "%u pieces are held", now);
        for (uint32_t i = given % 64; i > 0; i--)
            gpud_relax();
        gpud_sub_total(&common->holding, pieces);
        gpud_quota_give(0, pieces * PIECE);
        given++;
    }
}

int main(void)
{
    pid_t children[PROCESSES];

    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < PROCESSES; i++)
        pages[i] = player_page(GPUD_PAGE_PRESENCE, GPUD_PRESENCE_BYTES, 100 + (uint64_t)i);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            attach(i);
            meet();
            take_and_give(i);
            _exit(check_failures != 0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        waitpid(children[i], &status, 0);
        CHECK(status == 0, "process %d: %d", i, status);
    }
    printf("at most %u of %u pieces at once, %u times refused\n", common->worst, PIECES, common->refused);
    return check_summary("quota pair");
}
