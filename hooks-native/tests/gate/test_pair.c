/* test_pair.c: two processes that see each other's presence pages take turns by themselves, without a daemon: by their shares, one at
 * a time, and one goes on when the other dies with the turn. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "daemon.h"
#include "limits.h"

/* So slow that a process which the machine leaves alone for a while still has work submitted. */
#define COST (4 * GPUD_MILLISECOND)
#define WINDOW (8 * COST)
#define TURN (10 * COST)
#define RUN_NS (2 * GPUD_SECOND)
#define KERNEL ((const void *)0x1000)

/* What the parent and both children share. */
struct pair {
    uint64_t start_ns;
    uint32_t ready, dies;           /* dies: 1 + index of the child that kills itself in the middle, with the turn */
    uint32_t rate_ppm[2];
    uint64_t spent_ns[2], after_ns[2], ended_ns[2];     /* after: what it had spent at half time */
};
static struct pair *pair;
static int presence[2], activity[2];

static void write_control(uint32_t self)
{
    uint32_t other = 1 - self;
    struct gpud_control_device *knobs = &local_control()->device[0];

    knobs->tenant = 10 + self;
    knobs->draw_ns = COST;
    knobs->max_inflight_ns = WINDOW;
    limits_share(0, 0, pair->rate_ppm[self], pair->start_ns, TURN);
    knobs->peers[0] = (struct gpud_peer){ .rank = 1, .generation = 100 + other, .present = 0, .flags = GPUD_PEER_SHARE,
                                          .tenant = 10 + other, .share_t0_ns = pair->start_ns,
                                          .share_rate_ppm = pair->rate_ppm[other] };
    knobs->peer_count = 1;
}

static int child(uint32_t self)
{
    uint64_t half = pair->start_ns + RUN_NS / 2, end = pair->start_ns + RUN_NS;

    limits_begin(1);
    if (gpud_map_own(presence[self], activity[self]) != 0 || gpud_map_peer(0, presence[1 - self]) != 0)
        return 1;
    gpud_word_raise(0, 0);
    limits_teach(KERNEL, 1, COST);
    write_control(self);
    limits_gate(0, GPUD_GATE_SHARE | GPUD_GATE_WINDOW);
    CUstream stream = fake_stream();
    gpud_add_total(&pair->ready, 1);
    while (gpud_load_total(&pair->ready) < 2)
        limits_pause(GPUD_MILLISECOND);
    while (gpud_now() < end) {
        fake_launch_of(KERNEL, 1, stream, 0, COST);
        if (gpud_now() >= half && pair->after_ns[self] == 0) {
            pair->after_ns[self] = limits_spent(0);
            if (pair->dies == 1 + self)
                raise(SIGKILL);
        }
    }
    pair->ended_ns[self] = gpud_now();
    pair->spent_ns[self] = limits_spent(0);
    return fake_violations != 0;
}

/* Both run for RUN_NS; true if they end as they should. */
static bool run(uint32_t first_ppm, uint32_t dies)
{
    pid_t pids[2];
    bool well = true;

    *pair = (struct pair){ .start_ns = gpud_now() + 100 * GPUD_MILLISECOND, .dies = dies, .rate_ppm = { first_ppm, 1000000 - first_ppm } };
    for (uint32_t i = 0; i < 2; i++) {
        presence[i] = player_page(GPUD_PAGE_PRESENCE, GPUD_PRESENCE_BYTES, 100 + i);
        activity[i] = player_page(GPUD_PAGE_ACTIVITY, GPUD_ACTIVITY_BYTES, 100 + i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(child(i));
    }
    for (uint32_t i = 0; i < 2; i++) {
        int status = -1;
        waitpid(pids[i], &status, 0);
        well &= dies == 1 + i ? WIFSIGNALED(status) : status == 0;
        close(presence[i]);
        close(activity[i]);
    }
    return well;
}

/* The first's part of what both used, in thousandths. */
static uint64_t part(void)
{
    return pair->spent_ns[0] * 1000 / (pair->spent_ns[0] + pair->spent_ns[1] + 1);
}

static uint32_t share_ppm;

static void by_share(void)
{
    uint64_t target = share_ppm / 1000;

    CHECK(run(share_ppm, 0), "both end");
    uint64_t off = part() > target ? part() - target : target - part();
    uint64_t used = (pair->spent_ns[0] + pair->spent_ns[1]) * 1000 / RUN_NS;
    printf("share %llu: %llu of 1000, %llu of the device used\n", (unsigned long long)target, (unsigned long long)part(), (unsigned long long)used);
    BOUND(off <= 80, "%llu of 1000 instead of %llu", (unsigned long long)part(), (unsigned long long)target);
    BOUND(used <= 1400, "not one at a time: %llu of 1000 used", (unsigned long long)used);
    BOUND(used >= 300, "%llu of 1000 used", (unsigned long long)used);
}

/* Nothing of the dead one's page changes any more: it is passed over, and the other has the device. */
static void one_dies(void)
{
    CHECK(run(750000, 1), "one is killed, the other ends");
    uint64_t alone = pair->spent_ns[1] - pair->after_ns[1];
    BOUND(alone >= RUN_NS / 8, "the other used %llu us of the second half", (unsigned long long)alone / 1000);
}

int main(void)
{
    pair = mmap(NULL, sizeof *pair, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    alarm(300);
    for (share_ppm = 500000; share_ppm <= 900000; share_ppm += 200000)
        measured("shares", by_share);
    measured("one dies", one_dies);
    return check_summary("pair");
}
