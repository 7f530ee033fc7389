/* test_session.c: the client and a daemon that attaches it, lets it go, dies, comes back, is silent, or talks nonsense. Each case
 * in a process of its own. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "daemon.h"
#include "entry.h"
#include "keeper.h"
#include "session.h"

static struct player player;
static CUstream stream;
static uint32_t launches, stop;
static char said[4096];         /* what came out on stderr */
static int stderr_pipe;

static void *launch_on(void *unused)
{
    fake_context(0);
    while (!gpud_load(&stop)) {
        fake_launch(stream, 0, 0);
        gpud_add(&launches, 1);
    }
    return unused;
}

static bool is_held(void)
{
    return gpud_load_total(&gpud_holding) > 0;
}

static void set_gate(uint32_t gate)
{
    gpud_store_release(&player.control->device[0].gate, gate);
    gpud_add_total(&player.control->device[0].generation, 1);
    gpud_add_total(&player.control->device[0].wake, 1);
    gpud_futex_wake(&player.control->device[0].wake, true);
}

static void collect_stderr(void)
{
    size_t used = strlen(said);
    ssize_t more = read(stderr_pipe, said + used, sizeof said - 1 - used);
    said[used + (more > 0 ? (size_t)more : 0)] = 0;
}

static bool says(const char *text)
{
    collect_stderr();
    return strstr(said, text) != NULL;
}

static void pause_ms(int ms)
{
    struct timespec nap = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
    nanosleep(&nap, NULL);
}

static uint64_t counted(void)
{
    return gpud_marks(0).left;
}

static void attaches(void)
{
    player_listen(&player);
    uint64_t at = gpud_now();
    client_initialise();
    player_attach(&player);
    printf("attached after %llu us\n", (unsigned long long)(gpud_now() - at) / 1000);
    CHECK(player.hello.version_min == 1 && player.hello.role == GPUD_ROLE_HOOK && player.hello.flags == 0, "HELLO");
    CHECK(fcntl(player.presence_fd, F_ADD_SEALS, 0x10 /* F_SEAL_FUTURE_WRITE */) == 0, "the page can be sealed: %s",
          strerror(errno));
    for (int i = 0; i < 1000; i++)
        fake_launch(stream, 0, 0);
    CHECK(gpud_load(&player.presence->device[0].active) == 1, "the daemon sees it active");
    CHECK(gpud_load(&player.activity->device[0].slots[0].left) == 1000, "… and its launches: %llu",
          (unsigned long long)player.activity->device[0].slots[0].left);
    const struct gpud_msg_edge *edge = NULL;
    while (edge == NULL || edge->head.type != GPUD_MSG_WENT_ACTIVE) {
        edge = player_expect(&player, GPUD_MSG_WENT_ACTIVE);
        if (edge == NULL)
            break;
    }
    CHECK(edge != NULL && edge->slot == 0 && edge->edges == 1, "WENT_ACTIVE");
    EVENTUALLY(gpud_load(&player.presence->device[0].active) == 0, "the keeper asks, and it goes idle");
    edge = player_expect(&player, GPUD_MSG_WENT_IDLE);
    CHECK(edge != NULL && edge->edges == 2 && edge->when_ns == player.presence->device[0].idle_since_ns, "WENT_IDLE");
    CHECK(says("") && said[0] == 0, "nothing is said: %s", said);

    uint64_t wakes = gpud_load(&player.activity->keeper_wakes);
    pause_ms(300);
    wakes = gpud_load(&player.activity->keeper_wakes) - wakes;
    CHECK(wakes <= 40, "an idle keeper wakes %llu times in 0.3 s", (unsigned long long)wakes);
    wakes = gpud_load(&player.activity->keeper_wakes);
    pause_ms(300);
    CHECK(gpud_load(&player.activity->keeper_wakes) == wakes, "an idle keeper does not wake");
    gpud_allocated(0x1000, 4096);
    CHECK(gpud_load(&player.activity->device[0].used_bytes) == 4096 && gpud_load(&player.activity->device[0].allocations) == 1,
          "bytes are reported");
    gpud_freed(0x1000);
    CHECK(gpud_load(&player.activity->device[0].used_bytes) == 0, "and given back");
}

static void no_daemon(void)
{
    gpud_start();
    uint64_t at = gpud_now();
    gpud_initialised();
    CHECK(gpud_now() - at < 500 * GPUD_MILLISECOND, "returns at once");
    CHECK(says("no daemon at") && says("start `gpud serve`"), "says so: %s", said);
    fake_launch(stream, 0, 0);
    pause_ms(400);
    player_listen(&player);
    player_attach(&player);
    fake_launch(stream, 0, 0);
    CHECK(counted() == 1, "a daemon that comes later is found");
    collect_stderr();
    CHECK(strchr(said, '\n') == said + strlen(said) - 1, "one line only: %s", said);
}

static void silent(void)
{
    player_listen(&player);
    gpud_start();
    uint64_t at = gpud_now();
    gpud_initialised();         /* connects; nobody accepts */
    CHECK(gpud_now() - at < 1300 * GPUD_MILLISECOND, "waits a second at most");
    fake_launch(stream, 0, 0);
    EVENTUALLY(says("does not answer"), "says so: %s", said);
}

static void nobody_reads(void)
{
    int fds[64], count = 0;

    player_listen(&player);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s/hook.sock", getenv("GPUD_RUNTIME_DIR"));
    do {
        fds[count] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    } while (connect(fds[count], (struct sockaddr *)&address, sizeof address) == 0 && ++count < 64);
    gpud_start();
    uint64_t at = gpud_now();
    gpud_initialised();
    CHECK(gpud_now() - at < 500 * GPUD_MILLISECOND, "does not block in connect");
    CHECK(says("nobody reads"), "says so: %s", said);
    fake_launch(stream, 0, 0);
}

static void refused(void)
{
    player_listen(&player);
    client_initialise();
    CHECK(player_hello(&player), "HELLO");
    player_say(&player, GPUD_MSG_REFUSED, GPUD_REFUSED_POLICY, "class \"gold\" may not be claimed");
    CHECK(player_closed(&player, 2000), "it closes");
    CHECK(says("class \"gold\" may not be claimed"), "says why: %s", said);
    fake_launch(stream, 0, 0);
    CHECK(!player_accept(&player, 2600), "does not try again");
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
    CHECK(says("the operator said so"), "says why, in one line: %s", said);
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

/* The daemon dies while a thread is held; another one adopts the client with a new control page. */
static void adopted(void)
{
    pthread_t thread;

    player_listen(&player);
    client_initialise();
    player_attach(&player);
    pthread_create(&thread, NULL, launch_on, NULL);
    uint64_t fastest = UINT64_MAX;
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
        uint64_t at = gpud_now();
        CHECK(player_welcome(&player, false), "WELCOME");
        EVENTUALLY(counted() > before, "the held thread goes on by the new page");
        fastest = gpud_now() - at < fastest ? gpud_now() - at : fastest;
        gpud_store(&launches, 0);
    }
    CHECK(fastest < 90 * GPUD_MILLISECOND, "woken, not timed out: %llu us", (unsigned long long)fastest / 1000);
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
    for (int i = 0; i < 40; i++)
        CHECK(fcntl(own[i], F_GETFD) >= 0, "the program's descriptor %d was closed", own[i]);
    player_attach(&player);
    fake_launch(stream, 0, 0);
    CHECK(player.hello.flags == 0, "its pages could not be sent again: a new client");
    CHECK(counted() > 0, "attached anew");
}

static void too_many_files(void)
{
    struct rlimit before, none;

    player_listen(&player);
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &none);
    gpud_start();
    gpud_initialised();
    CHECK(says("ulimit -n"), "says so: %s", said);
    fake_launch(stream, 0, 0);
    setrlimit(RLIMIT_NOFILE, &before);
    player_attach(&player);
    fake_launch(stream, 0, 0);
    CHECK(counted() == 1, "attached once there are descriptors");
}

/* The limit is reached when the pages arrive. */
static void no_room_for_pages(void)
{
    struct rlimit before, tight;
    int highest = 0;

    player_listen(&player);
    player_pages(&player, 42);
    client_initialise();
    CHECK(player_hello(&player), "HELLO");
    for (int fd = 3; fd < 2000; fd++)
        highest = fcntl(fd, F_GETFD) >= 0 ? fd : highest;
    getrlimit(RLIMIT_NOFILE, &before);
    tight = before;
    tight.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &tight);
    struct gpud_msg_welcome welcome = {
        .head = { GPUD_WIRE_MAGIC, GPUD_MSG_WELCOME, sizeof welcome }, .version = 1, .client = 1, .generation = 42,
        .control_bytes = GPUD_CONTROL_BYTES, .presence_bytes = GPUD_PRESENCE_BYTES, .activity_bytes = GPUD_ACTIVITY_BYTES,
    };
    int fds[3] = { player.control_fd, player.presence_fd, player.activity_fd };
    player_send(&player, &welcome, sizeof welcome, fds, 3);
    EVENTUALLY(says("ulimit -n"), "says so: %s", said);
    fake_launch(stream, 0, 0);
    setrlimit(RLIMIT_NOFILE, &before);
    player_attach(&player);
}

static uint32_t open_descriptors(bool inherited)
{
    uint32_t count = 0;
    for (int fd = 3; fd < 2000; fd++) {
        int flags = fcntl(fd, F_GETFD);
        count += flags >= 0 && (!inherited || !(flags & FD_CLOEXEC));
    }
    return count;
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
        CHECK(player.hello.flags == 0, "the child is a client of its own");
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

/* Every packet that can be made from right ones by changing some bytes, in every state: no crash, no leak, no gate closed. */
static void nonsense(void)
{
    static struct gpud_session session;
    static struct gpud_config config;
    _Alignas(16) unsigned char packet[GPUD_WIRE_MAX_BYTES];
    static const struct {
        uint16_t type;
        size_t bytes;
    } kinds[10] = {
        { GPUD_MSG_PING, sizeof(struct gpud_msg_nonce) },          { GPUD_MSG_WELCOME, sizeof(struct gpud_msg_welcome) },
        { GPUD_MSG_REFUSED, sizeof(struct gpud_msg_text) + 5 },    { GPUD_MSG_DEVICE_SLOTS, sizeof(struct gpud_msg_device_slots) },
        { GPUD_MSG_PEERS, sizeof(struct gpud_msg_peers) },         { GPUD_MSG_DETACH, sizeof(struct gpud_msg_text) + 5 },
        { GPUD_MSG_JOB, sizeof(struct gpud_msg_text) },            { GPUD_MSG_HELLO, sizeof(struct gpud_msg_hello) },
        { 0, 8 },                                                  { 9999, 8 },
    };
    unsigned int seed = (unsigned int)gpud_now();
    uint32_t before = open_descriptors(false);

    printf("seed %u\n", seed);
    srand(seed);
    config.usable = true;
    gpud_start();
    for (int round = 0; round < 30000; round++) {
        int kind = rand() % 10;
        size_t bytes = kinds[kind].bytes;
        int fds[GPUD_WIRE_MAX_FDS];
        uint32_t fd_count = rand() % 4 == 0 ? (uint32_t)rand() % GPUD_WIRE_MAX_FDS : kind == 1 ? 3 : 0;

        gpud_session_start(&session, &config);
        session.state = (enum gpud_session_state)(GPUD_SESSION_HELLO + rand() % 4);
        session.devices = 2;
        memset(packet, 0, sizeof packet);
        struct gpud_msg *head = (struct gpud_msg *)(void *)packet;
        *head = (struct gpud_msg){ GPUD_WIRE_MAGIC, kinds[kind].type, (uint32_t)bytes };
        if (kind == 2 || kind == 5)
            ((struct gpud_msg_text *)(void *)packet)->text_bytes = 5;
        for (int changes = rand() % 6; changes > 0; changes--)
            packet[(size_t)rand() % bytes] = (unsigned char)rand();
        if (rand() % 8 == 0)
            bytes = (size_t)rand() % sizeof packet;
        for (uint32_t i = 0; i < fd_count; i++)
            fds[i] = rand() % 2 ? memfd_create("x", 0) : open("/dev/null", O_RDONLY);
        gpud_session_message(&session, packet, bytes, fds, fd_count);
        gpud_session_forget(&session);
    }
    CHECK(open_descriptors(false) == before, "%u descriptors leaked", open_descriptors(false) - before);
    for (int i = 0; i < 100; i++)
        fake_launch(stream, 0, 0);
    CHECK(!is_held(), "nothing is held");
}

/* Over the socket: what is too long, what is no message; the client closes, and comes back. */
static void nonsense_by_socket(void)
{
    static char big[GPUD_WIRE_MAX_BYTES + 100];
    pthread_t thread;

    player_listen(&player);
    client_initialise();
    player_attach(&player);
    pthread_create(&thread, NULL, launch_on, NULL);
    player_send(&player, big, sizeof big, NULL, 0);
    CHECK(player_closed(&player, 2000), "too long: it closes");
    CHECK(says("sent a packet that is too long") || says("no message of this protocol"), "says so: %s", said);
    player.generation = 100 + player.client;
    player_control(&player);
    CHECK(player_hello(&player) && player_welcome(&player, false), "it comes back");
    uint32_t before = gpud_load(&launches);
    EVENTUALLY(gpud_load(&launches) > before + 100, "and its launches go on");
    gpud_store(&stop, 1);
    pthread_join(thread, NULL);
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

static void settings(void)
{
    struct gpud_config config;
    char deep[300];

    setenv("GPUD_LOG", "loud", 1);
    setenv("GPUD_RUNTIME_DIR", "here/and/there", 1);
    setenv("XDG_RUNTIME_DIR", "/tmp/xdg", 1);
    gpud_start();
    gpud_config_read(&config);
    CHECK(config.usable && strcmp(config.socket.sun_path, "/tmp/xdg/gpud/hook.sock") == 0, "%s", config.socket.sun_path);
    CHECK(says("GPUD_LOG is \"loud\"") && says("GPUD_RUNTIME_DIR is \"here/and/there\""), "says so: %s", said);
    unsetenv("GPUD_LOG");
    memset(deep, 'd', sizeof deep);
    deep[0] = '/';
    deep[97] = 0;       /* 97 + 10 = 107 bytes */
    setenv("GPUD_RUNTIME_DIR", deep, 1);
    gpud_config_read(&config);
    CHECK(config.usable && strlen(config.socket.sun_path) == 107, "107 bytes are allowed");
    deep[97] = 'd';
    deep[98] = 0;
    setenv("GPUD_RUNTIME_DIR", deep, 1);
    gpud_config_read(&config);
    CHECK(!config.usable && says("108 bytes"), "108 are not: %s", said);
    setenv("GPUD_RUNTIME_DIR", "", 1);
    unsetenv("XDG_RUNTIME_DIR");
    gpud_config_read(&config);
    CHECK(config.usable && (geteuid() != 0 || strcmp(config.socket.sun_path, "/run/gpud/hook.sock") == 0), "%s",
          config.socket.sun_path);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    { "attaches", attaches }, { "no daemon", no_daemon }, { "silent", silent }, { "nobody reads", nobody_reads },
    { "refused", refused }, { "let go", let_go }, { "adopted", adopted }, { "not adopted", not_adopted }, { "peers", peers },
    { "all closed", all_closed }, { "too many files", too_many_files }, { "no room for pages", no_room_for_pages },
    { "forks", forks }, { "nonsense", nonsense }, { "nonsense by socket", nonsense_by_socket },
    { "says good bye", says_good_bye }, { "settings", settings },
};

static int run_case(uint32_t index)
{
    int ends[2], own_stderr = dup(STDERR_FILENO);

    alarm(60);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return 1;
    stderr_pipe = fcntl(ends[0], F_DUPFD_CLOEXEC, 500);
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    player_directory();
    fake_context(0);
    stream = fake_stream();
    cases[index].run();
    CHECK(fake_violations == 0, "the driver was used wrongly");
    collect_stderr();
    dup2(own_stderr, STDERR_FILENO);
    if (check_failures != 0)
        fprintf(stderr, "%s", said);
    return check_summary(cases[index].name);
}

int main(int count, char **names)
{
    int failures = 0;

    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (count > 1 && strcmp(names[1], cases[i].name) != 0)
            continue;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            exit(run_case(i));
        int status = -1;
        waitpid(child, &status, 0);
        if (status != 0)
            fprintf(stderr, "case \"%s\" failed (%d)\n", cases[i].name, status);
        failures += status != 0;
        check_count++;
    }
    check_failures = (unsigned int)failures;
    return check_summary("session");
}
