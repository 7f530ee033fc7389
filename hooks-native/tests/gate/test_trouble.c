/* test_trouble.c: no daemon, one that is silent, refuses, or talks nonsense; limits; settings that make no sense. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cases.h"
#include "host_slots.h"
#include "session.h"

static void no_daemon(void)
{
    gpud_start();
    uint64_t at = gpud_now();
    gpud_initialised();
    BOUND(gpud_now() - at < 500 * GPUD_MILLISECOND, "returns at once");
    CHECK(says("no daemon at") && says("start `gpud serve`"), "says so: %s", said);
    fake_launch(stream, 0, 0);
    pause_ms(400);
    player_listen(&player);
    player_attach(&player);
    fake_launch(stream, 0, 0);
    CHECK(counted() == 1, "a daemon that comes later is found");
    says("");
    CHECK(strchr(said, '\n') == said + strlen(said) - 1, "one line only: %s", said);
}

static void silent(void)
{
    player_listen(&player);
    gpud_start();
    uint64_t at = gpud_now();
    gpud_initialised();         /* connects; nobody accepts */
    BOUND(gpud_now() - at < 2500 * GPUD_MILLISECOND, "waits a second at most");
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
    BOUND(gpud_now() - at < 500 * GPUD_MILLISECOND, "does not block in connect");
    CHECK(says("nobody reads"), "says so: %s", said);
    fake_launch(stream, 0, 0);
}

static void refused(void)
{
    player_listen(&player);
    client_initialise();
    CHECK(player_hello(&player), "HELLO");
    player_say(&player, GPUD_MSG_REFUSED, GPUD_REFUSED_POLICY, "class \"gold\" may not be claimed");
    CHECK(player_closed(&player, PLAYER_MS), "it closes");
    EVENTUALLY(says("class \"gold\" may not be claimed"), "says why: %s", said);
    fake_launch(stream, 0, 0);
    CHECK(!player_accept(&player, 2600), "does not try again");
}

/* As a daemon at its limit of open files does: HELLO stays unread, so the client is told ECONNRESET before the words. */
static void refused_unread(void)
{
    player_listen(&player);
    client_initialise();
    CHECK(player_accept(&player, PLAYER_MS), "it connects");
    struct pollfd hello = { .fd = player.socket, .events = POLLIN };
    CHECK(poll(&hello, 1, PLAYER_MS) == 1, "HELLO is there, and is not read");
    player_say(&player, GPUD_MSG_REFUSED, GPUD_REFUSED_RESOURCES, "the daemon is full");
    close(player.socket);
    player.socket = -1;
    EVENTUALLY(says("the daemon is full"), "says why: %s", said);
    fake_launch(stream, 0, 0);
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

static int player_slots;        /* a memfd of one unit of host memory */

static void fill_table(struct rlimit *before)
{
    struct rlimit tight;
    int fd = 3;

    getrlimit(RLIMIT_NOFILE, before);
    tight = *before;
    tight.rlim_cur = 1024;
    setrlimit(RLIMIT_NOFILE, &tight);
    while (fd >= 0)
        fd = fcntl(stderr_pipe, F_DUPFD_CLOEXEC, 3);
    CHECK(errno == EMFILE, "the table is full: %s", strerror(errno));
}

static void send_slots(uint64_t request)
{
    struct gpud_msg_memory slots = { { GPUD_WIRE_MAGIC, GPUD_MSG_SLOTS, sizeof slots }, 0, 0, request, GPUD_HOST_UNIT, 0 };

    player_send(&player, &slots, sizeof slots, &player_slots, 1);
}

/* The program has all descriptors that it may have: those that packets bring are received by numbers kept for that, each time. */
static void full_table(void)
{
    struct rlimit before;
    uint64_t has = gpud_load(&gpud_host_bytes);

    player_listen(&player);
    client_initialise();
    player_slots = memfd_create("gpud-test", MFD_CLOEXEC);
    CHECK(ftruncate(player_slots, GPUD_HOST_UNIT) == 0, "a memfd");
    player_attach(&player);
    fill_table(&before);
    for (uint64_t i = 1; i <= 3; i++) {
        send_slots(i);
        EVENTUALLY(gpud_load(&gpud_host_bytes) == has + i * GPUD_HOST_UNIT, "%llu times host memory", (unsigned long long)i);
    }
    CHECK(says("") && said[0] == 0, "nothing is said: %s", said);
    setrlimit(RLIMIT_NOFILE, &before);
    CHECK(gpud_load(&gpud_managed) && !player_closed(&player, 50), "the session is alive");
}

/* The limit is lowered to nothing: no number can be kept. The session goes on without what the packet brought. */
static void no_spare(void)
{
    struct rlimit before, none;
    uint64_t has = gpud_load(&gpud_host_bytes);
    struct gpud_peer_page peer = { .generation = 77, .present = 5 };

    player_listen(&player);
    client_initialise();
    player_slots = memfd_create("gpud-test", MFD_CLOEXEC);
    CHECK(ftruncate(player_slots, GPUD_HOST_UNIT) == 0, "a memfd");
    int page = player_page(GPUD_PAGE_PRESENCE, GPUD_PRESENCE_BYTES, 77);
    player_attach(&player);
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &none);
    send_slots(1);
    EVENTUALLY(says("stays there; raise `ulimit -n`"), "says what follows: %s", said);
    CHECK(!player_peers(&player, &peer, 1, &page, 1), "the peer is answered for, and not mapped");
    CHECK(gpud_load(&gpud_host_bytes) == has, "no host memory");
    setrlimit(RLIMIT_NOFILE, &before);
    CHECK(gpud_load(&gpud_managed) && !player_closed(&player, 50), "the session is alive");
    CHECK(player_peers(&player, &peer, 1, &page, 1), "and maps the peer as there is room");
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
    CHECK(player_closed(&player, PLAYER_MS), "too long: it closes");
    EVENTUALLY(says("sent a packet that is too long") || says("no message of this protocol"), "says so: %s", said);
    player.generation = 100 + player.client;
    player_control(&player);
    CHECK(player_hello(&player) && player_welcome(&player, false), "it comes back");
    uint32_t before = gpud_load(&launches);
    EVENTUALLY(gpud_load(&launches) > before + 100, "and its launches go on");
    gpud_store(&stop, 1);
    pthread_join(thread, NULL);
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

/* Where anybody could have made the directory, a daemon of another user is not believed. Needs root, to be two users. */
static void listened_to_by_another(void)
{
    struct gpud_config config = { .own_daemon_only = true, .usable = true, .socket = { .sun_family = AF_UNIX } };
    struct gpud_session session;

    if (geteuid() != 0)
        return;
    player_listen(&player);
    pid_t listener = fork();
    if (listener == 0) {    /* the credentials of a socket are of who listens last */
        if (setresuid(65534, 65534, 65534) != 0 || listen(player.listener, 4) != 0)
            _exit(1);
        _exit(0);
    }
    int status = -1;
    waitpid(listener, &status, 0);
    CHECK(status == 0, "somebody else listens");
    snprintf(config.socket.sun_path, sizeof config.socket.sun_path, "%.90s/hook.sock", getenv("GPUD_RUNTIME_DIR"));
    gpud_start();
    gpud_session_start(&session, &config);
    gpud_session_try(&session, gpud_now());
    CHECK(session.state == GPUD_SESSION_CLOSED && says("another user listens"), "not believed: %s", said);
    CHECK(listen(player.listener, 4) == 0, "root listens");
    session.retry_ns = 0;
    gpud_session_try(&session, gpud_now());
    CHECK(session.state == GPUD_SESSION_HELLO, "believed");
}

static const struct session_case cases[] = {
    { "listened to by another", listened_to_by_another },
    { "no daemon", no_daemon },
    { "silent", silent },
    { "nobody reads", nobody_reads },
    { "refused", refused },
    { "refused unread", refused_unread },
    { "too many files", too_many_files },
    { "no room for pages", no_room_for_pages },
    { "full table", full_table },
    { "no spare", no_spare },
    { "nonsense", nonsense },
    { "nonsense by socket", nonsense_by_socket },
    { "settings", settings },
};

int main(int count, char **argv)
{
    (void)count;
    return run_cases("trouble", cases, sizeof cases / sizeof cases[0], argv);
}
