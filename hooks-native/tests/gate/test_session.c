/* test_session.c: the client and a daemon that attaches it, lets it go, dies, and comes back. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "cases.h"
#include "entry.h"
#include "keeper.h"

static void attaches(void)
{
    player_listen(&player);
    uint64_t at = gpud_now();
    client_initialise();
    player_attach(&player);
    printf("attached after %llu us\n", (unsigned long long)(gpud_now() - at) / 1000);
    CHECK(player.hello.version_min == 1 && player.hello.role == GPUD_ROLE_HOOK && player.hello.flags == GPUD_HELLO_WAITS,
          "HELLO");
    CHECK(fcntl(player.presence_fd, F_ADD_SEALS, 0x10 /* F_SEAL_FUTURE_WRITE */) == 0, "the page can be sealed: %s",
          strerror(errno));
    for (int i = 0; i < 1000; i++)
        fake_launch(stream, 0, i < 999 ? 0 : FAKE_SPINS);
    CHECK(gpud_load(&player.presence->device[0].active) == 1, "the daemon sees it active");
    CHECK(gpud_load(&player.activity->device[0].slots[0].left) == 1000, "… and its launches: %llu",
          (unsigned long long)player.activity->device[0].slots[0].left);
    uint32_t edges = gpud_load(&player.presence->device[0].edges);
    const struct gpud_msg_edge *edge = player_expect(&player, GPUD_MSG_WENT_ACTIVE);
    while (edge != NULL && edge->edges < edges)     /* it was idle between two launches, if this thread was away */
        edge = player_expect(&player, GPUD_MSG_WENT_ACTIVE);
    CHECK(edge != NULL && edge->slot == 0 && edge->edges == edges, "WENT_ACTIVE");
    fake_release();
    EVENTUALLY(gpud_load(&player.presence->device[0].active) == 0, "the keeper asks, and it goes idle");
    edge = player_expect(&player, GPUD_MSG_WENT_IDLE);
    CHECK(edge != NULL && edge->edges == edges + 1 && edge->when_ns == player.presence->device[0].idle_since_ns, "WENT_IDLE");
    CHECK(says("") && said[0] == 0, "nothing is said: %s", said);
    /* The daemon looks by itself: it need not be told; afterwards it is again. */
    gpud_store(&player.control->device[0].watched, 1);
    fake_launch(stream, 0, 0);
    EVENTUALLY(gpud_load(&player.presence->device[0].edges) == edges + 3 && gpud_load_total(&gpud_keeper_asleep), "active and idle again");
    gpud_store(&player.control->device[0].watched, 0);
    fake_launch(stream, 0, FAKE_SPINS);
    edge = player_expect(&player, GPUD_MSG_WENT_ACTIVE);
    CHECK(edge != NULL && edge->edges == edges + 4, "of edges while it looked nothing was told: %u", edge ? edge->edges : 0);
    fake_release();
    EVENTUALLY(gpud_load(&player.presence->device[0].active) == 0, "idle again");

    uint64_t wakes = gpud_load(&player.activity->keeper_wakes);
    EVENTUALLY(gpud_load_total(&gpud_keeper_asleep), "the keeper sleeps until it is called");
    wakes = gpud_load(&player.activity->keeper_wakes) - wakes;
    CHECK(wakes <= 40, "an idle keeper wakes %llu times before that", (unsigned long long)wakes);
    wakes = gpud_load(&player.activity->keeper_wakes);
    pause_ms(300);
    CHECK(gpud_load(&player.activity->keeper_wakes) == wakes, "an idle keeper does not wake");
    gpud_allocated(0x1000, 4096);
    CHECK(gpud_load(&player.activity->device[0].used_bytes) == 4096 && gpud_load(&player.activity->device[0].allocations) == 1,
          "bytes are reported");
    gpud_freed(0x1000);
    CHECK(gpud_load(&player.activity->device[0].used_bytes) == 0, "and given back");
}

static void let_go(void)
{
    pthread_t thread;

    player_listen(&player);
    client_initialise();
    player_attach(&player);
    set_gate(GPUD_GATE_PAUSED);
    pthread_create(&thread, NULL, launch_on, NULL);
    EVENTUALLY(is_held(), "held");
    player_say(&player, GPUD_MSG_DETACH, 0, "the operator said\nso");
    EVENTUALLY(gpud_load(&launches) > 100, "goes on without gate");
    EVENTUALLY(says("the operator said so"), "says why, in one line: %s", said);
    /* It comes back as a new client. */
    player_attach(&player);
    CHECK(player.hello.flags == 0, "not as the one it was");
    uint64_t before = counted();
    EVENTUALLY(counted() > before + 100, "its launches are counted again");
    set_gate(GPUD_GATE_PAUSED);
    EVENTUALLY(is_held(), "held by the new page");
    gpud_store(&stop, 1);
    set_gate(0);
    pthread_join(thread, NULL);
    CHECK(gpud_marks(0).entered == gpud_marks(0).left, "the marks agree");
}

/* As a held thread sleeps, but much longer: not NULL if it was woken. */
static uint32_t sleeps;
static void *sleep_on_page(void *unused)
{
    const uint32_t *word = &gpud_control()->device[7].wake;
    uint32_t seen = gpud_load(word);
    gpud_store_total(&sleeps, 1);
    return gpud_futex_wait(word, seen, gpud_now() + 2 * EVENTUALLY_NS, true) == 0 ? &player : unused;
}

/* The daemon dies while a thread is held; another one adopts the client with a new control page. */
static void adopted(void)
{
    pthread_t thread, sleeper;

    player_listen(&player);
    client_initialise();
    player_attach(&player);
    pthread_create(&thread, NULL, launch_on, NULL);
    pthread_create(&sleeper, NULL, sleep_on_page, NULL);
    EVENTUALLY(gpud_load_total(&sleeps), "another one sleeps");
    for (int round = 0; round < 3; round++) {
        EVENTUALLY(gpud_load(&launches) > 100, "launches");
        set_gate(GPUD_GATE_PAUSED);
        EVENTUALLY(is_held(), "held");
        uint64_t generation = player.generation, before = counted();
        uint32_t client = player.client;
        player_stop(&player);
        pause_ms(50);
        CHECK(is_held() && counted() == before, "a dead daemon opens no gate");
        player_listen(&player);
        player.client = client;
        player.generation = generation;
        player_control(&player);
        CHECK(player_hello(&player), "HELLO");
        CHECK(player.hello.flags == GPUD_HELLO_REATTACH && player.hello.client == client && player.hello.generation == generation &&
                  player.fd_count == 0 && player.presence_fd >= 0 && player.activity_fd >= 0,
              "it says who it was, and sends its pages");
        CHECK(player_welcome(&player, false), "WELCOME");
        EVENTUALLY(counted() > before, "the held thread goes on by the new page");
        gpud_store(&launches, 0);
    }
    void *woken = NULL;
    pthread_join(sleeper, &woken);
    CHECK(woken != NULL, "whoever sleeps on a page is woken when another takes its place");
    gpud_store(&stop, 1);
    pthread_join(thread, NULL);
    CHECK(gpud_load(&gpud_activity()->attaches) == 4, "%llu attaches", (unsigned long long)gpud_load(&gpud_activity()->attaches));
}

static void not_adopted(void)
{
    pthread_t thread;

    player_listen(&player);
    client_initialise();
    player_attach(&player);
    set_gate(GPUD_GATE_PAUSED);
    pthread_create(&thread, NULL, launch_on, NULL);
    EVENTUALLY(is_held(), "held");
    player_stop(&player);
    player_listen(&player);
    CHECK(player_hello(&player) && player.hello.flags == GPUD_HELLO_REATTACH, "it asks to be adopted");
    player_say(&player, GPUD_MSG_REFUSED, GPUD_REFUSED_IDENTITY, "who are you?");
    player_attach(&player);
    CHECK(player.hello.flags == 0 && player.hello.generation == 0, "then it comes as a new client");
    EVENTUALLY(counted() > 100, "the held thread goes on under new pages");
    gpud_store(&stop, 1);
    pthread_join(thread, NULL);
}

static void peers(void)
{
    struct gpud_peer_page list[2] = { { .present = 5, .generation = 77, .bytes = GPUD_PRESENCE_BYTES },
                                      { .present = 9, .generation = 78, .bytes = GPUD_PRESENCE_BYTES } };
    int fds[2] = { player_page(GPUD_PAGE_PRESENCE, GPUD_PRESENCE_BYTES, 77),
                   player_page(GPUD_PAGE_PRESENCE, GPUD_PRESENCE_BYTES, 78) };
    struct gpud_presence_page *peer = mmap(NULL, GPUD_PRESENCE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    pthread_t thread;

    player_listen(&player);
    client_initialise();
    player_attach(&player);
    struct gpud_control_device *knobs = &player.control->device[0];
    knobs->peers[0] = (struct gpud_peer){ .rank = 0, .generation = 77, .present = 5 };
    knobs->peer_count = 1;
    gpud_store(&peer->device[0].active, 1);
    set_gate(GPUD_GATE_PREEMPT);
    pthread_create(&thread, NULL, launch_on, NULL);
    EVENTUALLY(gpud_load(&launches) > 100, "a peer that is not mapped holds nobody");
    CHECK(player_peers(&player, list, 2, fds, 2), "two peers are mapped");
    EVENTUALLY(is_held(), "the active peer holds");
    gpud_store(&peer->device[0].idle_since_ns, gpud_now());
    gpud_store_release(gpud_edge_word(&peer->device[0]), GPUD_EDGE_WORD(0, 2));
    EVENTUALLY(!is_held(), "it goes idle");
    gpud_store_release(gpud_edge_word(&peer->device[0]), GPUD_EDGE_WORD(1, 3));
    EVENTUALLY(is_held(), "it is active again");
    uint32_t before = gpud_load(&launches);
    CHECK(player_peers(&player, &list[1], 1, NULL, 0), "the other one stays without being sent again");
    EVENTUALLY(gpud_load(&launches) > before + 100, "a peer that is gone holds nobody");
    /* A page that is not what it is said to be. */
    list[0].generation = 99;
    CHECK(!player_peers(&player, list, 2, fds, 1), "a page of another generation is not mapped");
    gpud_store(&stop, 1);
    pthread_join(thread, NULL);
    CHECK(gpud_load(&gpud_managed), "still attached");
}

/* The program closes everything and opens its own files: we come back, its files are as they were. */
static void all_closed(void)
{
    char path[96];
    int own[80];

    player_listen(&player);
    client_initialise();
    player_attach(&player);
    fake_launch(stream, 0, 0);
    EVENTUALLY(!is_active(0), "idle");
    pause_ms(50);
    for (int fd = 3; fd < 2000; fd++) {
        if (fd != player.listener && fd != player.socket && fd != stderr_pipe)
            syscall(SYS_close, fd);     /* as closefrom() does: behind the back of whoever keeps books */
    }
    snprintf(path, sizeof path, "/tmp/gpud-gate-own-%d", getpid());
    int base = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    unlink(path);
    for (int i = 0; i < 40; i++)
        own[i] = fcntl(base, F_DUPFD, 1000 + i);    /* where ours were */
    for (int i = 0; i < 100; i++) {
        fake_launch(stream, 0, 0);
        fake_synchronise(stream, 0);
        if (i % 20 == 0)
            pause_ms(30);
    }
    struct stat info;
    CHECK(fstat(base, &info) == 0 && info.st_size == 0, "%lld bytes were written into the program's file", (long long)info.st_size);
    for (int i = 0; i < 40; i++) {
        struct stat mine;
        CHECK(fstat(own[i], &mine) == 0 && mine.st_ino == info.st_ino, "the program's descriptor %d was closed", own[i]);
    }
    player_attach(&player);
    fake_launch(stream, 0, 0);
    CHECK(player.hello.flags == 0, "its pages could not be sent again: a new client");
    CHECK(counted() > 0, "attached anew");
}

static void forks(void)
{
    player_listen(&player);
    uint32_t inherited = open_descriptors(true);
    client_initialise();
    player_attach(&player);
    CHECK(open_descriptors(true) == inherited, "nothing of ours survives an exec");
    fake_launch(stream, 0, 0);
    uint64_t before = counted();
    set_gate(GPUD_GATE_PAUSED);     /* of the parent only */
    pid_t child = fork();
    if (child == 0) {
        check_count = check_failures = 0;
        CHECK(gpud_live == 0, "the interception half starts anew");
        for (int i = 0; i < 5; i++)
            fake_launch(stream, 0, 0);
        CHECK(gpud_load(&gpud_managed) == 0, "the child is not attached");
        gpud_start();
        client_initialise();
        player.client++;
        player_attach(&player);
        CHECK(player.hello.flags == GPUD_HELLO_WAITS, "the child is a client of its own");
        fake_context(0);
        for (int i = 0; i < 5; i++)
            fake_launch(stream, 0, 0);
        CHECK(counted() == 5 && gpud_load(&player.activity->device[0].slots[0].left) == 5, "its launches are its own");
        _exit(check_failures ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0, "the child: %d", status);
    CHECK(counted() == before, "the child's launches are not the parent's");
    set_gate(0);
    fake_launch(stream, 0, 0);
    CHECK(counted() == before + 1, "the parent goes on");
}

static void says_good_bye(void)
{
    player_listen(&player);
    pid_t child = fork();
    if (child == 0) {
        client_initialise();
        EVENTUALLY(gpud_load_acquire(&gpud_managed), "managed");
        fake_launch(stream, 0, 0);
        exit(0);
    }
    player_pages(&player, 5);
    CHECK(player_hello(&player) && player_welcome(&player, true), "the child attaches");
    CHECK(player_expect(&player, GPUD_MSG_BYE) != NULL, "BYE");
    int status;
    waitpid(child, &status, 0);
}

static const struct session_case cases[] = {
    { "attaches", attaches },
    { "let go", let_go },
    { "adopted", adopted },
    { "not adopted", not_adopted },
    { "peers", peers },
    { "all closed", all_closed },
    { "forks", forks },
    { "says good bye", says_good_bye },
};

int main(int count, char **argv)
{
    (void)count;
    return run_cases("session", cases, sizeof cases / sizeof cases[0], argv);
}
