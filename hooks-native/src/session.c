/* session.c: connection, sending, and the way back after a loss. What the daemon says is handled in session_message.c. */
#define _GNU_SOURCE
#include "session.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "entry.h"
#include "keeper.h"
#include "log.h"
#include "state.h"

#define PATIENCE_NS (900 * GPUD_MILLISECOND)    /* then the user is told; the program has not waited longer than this */
#define ANSWER_WITHIN_NS (5 * GPUD_SECOND)      /* then the connection is given up */
#define SHORTEST_PAUSE_NS (100 * GPUD_MILLISECOND)
#define LONGEST_PAUSE_NS GPUD_SECOND
#define LONGEST_SULK_NS (30 * GPUD_SECOND)      /* after sessions that ended at once */
#define STEADY_NS (5 * GPUD_SECOND)
#define EDGE_SPACING_NS (5 * GPUD_MILLISECOND)  /* per device: a daemon needs no more edges than this */

void gpud_session_start(struct gpud_session *session, const struct gpud_config *config)
{
    static const struct gpud_descriptor none = GPUD_NO_DESCRIPTOR;

    *session = (struct gpud_session){ .config = config, .socket = none, .presence = none, .activity = none };
    for (uint32_t i = 0; i < GPUD_SPARE_FDS; i++)
        session->spare[i] = none;
    session->deadline_ns = GPUD_NEVER;
}

void gpud_session_close(struct gpud_session *session, uint64_t shortest_pause_ns)
{
    uint64_t now = gpud_now(), longest = LONGEST_PAUSE_NS;

    if (session->state == GPUD_SESSION_READY && now - session->ready_ns > STEADY_NS)
        session->pause_ns = 0;
    if (shortest_pause_ns > LONGEST_PAUSE_NS)
        longest = LONGEST_SULK_NS;
    session->pause_ns = session->pause_ns == 0 ? SHORTEST_PAUSE_NS : session->pause_ns * 2;
    if (session->pause_ns > longest)
        session->pause_ns = longest;
    gpud_session_drop_spare(session);
    gpud_descriptor_drop(&session->socket);
    if (session->state != GPUD_SESSION_OFF)
        session->state = GPUD_SESSION_CLOSED;
    session->retry_ns = now + (session->pause_ns > shortest_pause_ns ? session->pause_ns : shortest_pause_ns);
    session->deadline_ns = GPUD_NEVER;
    session->owe_mapped = session->owe_devices = session->owe_peers_mapped = false;
    session->quiet = true;
    gpud_keeper_outcome();
}

void gpud_session_nonsense(struct gpud_session *session, const char *what)
{
    gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NONSENSE, "the daemon at %s sent %s: the connection is closed and tried again; "
             "is it of the same gpud version?", session->config->socket.sun_path, what);
    gpud_add(&gpud_activity()->errors, 1);
    gpud_session_close(session, LONGEST_PAUSE_NS * 2);
}

bool gpud_session_send(struct gpud_session *session, const void *message, size_t bytes, const int *fds, uint32_t fd_count,
                       bool *full)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * 4)];
    } control;
    struct iovec part = { .iov_base = (void *)(uintptr_t)message, .iov_len = bytes };
    struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };

    if (!gpud_descriptor_is_ours(&session->socket)) {
        gpud_session_close(session, 0);
        return false;
    }
    if (fd_count > 0 && fd_count <= 4) {
        memset(&control, 0, sizeof control);
        packet.msg_control = control.room;
        packet.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * fd_count);
    }
    ssize_t sent = sendmsg(session->socket.fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == (ssize_t)bytes)
        return true;
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)) {
        *full = true;
        return false;
    }
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
        return true;    /* it has hung up: why, is still to be read, and the end of file after it closes the session */
    gpud_session_close(session, 0);
    return false;
}

static void say_no_daemon(const struct gpud_session *session, int failure)
{
    const char *path = session->config->socket.sun_path;

    if (session->quiet)
        return;
    if (failure == EMFILE || failure == ENFILE)
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NO_FILES, "no descriptor is free to reach the daemon (%s): this program runs without "
                 "gpud until one is; raise `ulimit -n`", strerror(failure));
    else if (failure == EPERM)
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NO_DAEMON, "another user listens at %s: this program runs without gpud; remove that "
                 "directory, or set GPUD_RUNTIME_DIR to where your daemon runs", path);
    else if (failure == EAGAIN)
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_SILENT, "nobody reads the socket %s: this program runs without gpud until somebody "
                 "does; restart `gpud serve`", path);
    else
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NO_DAEMON, "no daemon at %s (%s): this program runs without gpud until there is one; "
                 "start `gpud serve`, or set GPUD_RUNTIME_DIR to where it runs", path, strerror(failure));
}

static bool is_daemon_of_ours(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

/* A connected socket, or a negative errno (EPERM: somebody else listens there). Never blocks. */
static int connect_to(const struct gpud_config *config)
{
    const struct sockaddr_un *address = &config->socket;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        int failure = errno;
        close(fd);
        return -failure;
    }
    if (config->own_daemon_only && !is_daemon_of_ours(fd)) {
        close(fd);
        return -EPERM;
    }
    return fd;
}

static bool say_hello(struct gpud_session *session)
{
    struct gpud_msg_hello hello = {
        .head = { .magic = GPUD_WIRE_MAGIC, .type = GPUD_MSG_HELLO, .bytes = sizeof hello },
        .version_min = GPUD_WIRE_VERSION_MIN, .version_max = GPUD_WIRE_VERSION_MAX, .role = GPUD_ROLE_HOOK,
        .page_version = GPUD_PAGE_VERSION,
    };
    int fds[2] = { session->presence.fd, session->activity.fd };
    bool full = false;

    session->reattach = session->generation != 0 && gpud_descriptor_is_ours(&session->presence) &&
                        gpud_descriptor_is_ours(&session->activity);
    if (session->reattach) {
        hello.flags = GPUD_HELLO_REATTACH;
        hello.client = session->client;
        hello.generation = session->generation;
    } else if (gpud_keeper_waits() && !gpud_hookless) {
        hello.flags = GPUD_HELLO_WAITS;
    }
    hello.flags |= gpud_hookless ? GPUD_HELLO_HOOKLESS : 0;
    if (gpud_session_send(session, &hello, sizeof hello, fds, session->reattach ? 2 : 0, &full))
        return true;
    if (full)
        gpud_session_close(session, 0);
    return false;
}

void gpud_session_try(struct gpud_session *session, uint64_t now)
{
    if (session->state != GPUD_SESSION_CLOSED || now < session->retry_ns)
        return;
    int fd = connect_to(session->config);
    if (fd < 0 || !gpud_descriptor_keep(&session->socket, fd)) {
        say_no_daemon(session, fd < 0 ? -fd : EBADF);
        gpud_session_close(session, 0);
        return;
    }
    gpud_session_take_spare(session);
    session->state = GPUD_SESSION_HELLO;
    session->deadline_ns = now + PATIENCE_NS;
    session->give_up_ns = now + ANSWER_WITHIN_NS;
    say_hello(session);
}

void gpud_session_late(struct gpud_session *session, uint64_t now)
{
    if (now < session->deadline_ns || session->state == GPUD_SESSION_CLOSED)
        return;
    gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_SILENT, "the daemon at %s does not answer: this program runs without gpud until it "
             "does; restart `gpud serve`", session->config->socket.sun_path);
    gpud_keeper_outcome();
    if (now < session->give_up_ns)
        session->deadline_ns = session->give_up_ns;
    else
        gpud_session_close(session, LONGEST_PAUSE_NS);
}

static void pay_debts(struct gpud_session *session, bool *full)
{
    struct gpud_msg_plain mapped = { { GPUD_WIRE_MAGIC, GPUD_MSG_MAPPED, sizeof mapped } };
    struct gpud_msg_peers_mapped peers = {
        .head = { GPUD_WIRE_MAGIC, GPUD_MSG_PEERS_MAPPED, sizeof peers },
        .serial = session->peers_serial, .mapped = session->peers_mapped,
    };
    struct gpud_msg_devices devices;

    if (session->owe_mapped && !*full && gpud_session_send(session, &mapped, sizeof mapped, NULL, 0, full))
        session->owe_mapped = false;
    if (session->owe_devices && !session->owe_mapped && !*full) {
        if (!gpud_session_devices(&devices)) {
            gpud_session_close(session, LONGEST_PAUSE_NS);
            return;
        }
        if (gpud_session_send(session, &devices, sizeof devices, NULL, 0, full)) {
            session->owe_devices = false;
            session->devices = devices.count;
        }
    }
    if (session->owe_peers_mapped && !*full && gpud_session_send(session, &peers, sizeof peers, NULL, 0, full))
        session->owe_peers_mapped = false;
}

/* The edge that brought the device to its present state, if it has not been told. Returns when it is due; UINT64_MAX: nothing to
 * tell. */
static uint64_t tell_edge(struct gpud_session *session, uint32_t device, uint64_t now, bool *full)
{
    uint64_t word = gpud_load_acquire(gpud_edge_word(gpud_presence_at(device)));
    uint64_t due = session->edge_sent_ns[device] + EDGE_SPACING_NS;

    if (GPUD_EDGE_COUNT(word) == session->edges_sent[device])
        return GPUD_NEVER;
    if (gpud_load(&gpud_control()->device[device].watched)) {  /* when it stops looking, it looks once more after saying so */
        session->edges_sent[device] = GPUD_EDGE_COUNT(word);
        return GPUD_NEVER;
    }
    if (now < due)
        return due;
    struct gpud_msg_edge edge = {
        .head = { GPUD_WIRE_MAGIC, GPUD_EDGE_ACTIVE(word) ? GPUD_MSG_WENT_ACTIVE : GPUD_MSG_WENT_IDLE, sizeof edge },
        .slot = device, .edges = GPUD_EDGE_COUNT(word),
        .when_ns = GPUD_EDGE_ACTIVE(word) ? now : gpud_load(&gpud_presence_at(device)->idle_since_ns),
    };
    if (gpud_session_send(session, &edge, sizeof edge, NULL, 0, full)) {
        session->edges_sent[device] = edge.edges;
        session->edge_sent_ns[device] = now;
    }
    return GPUD_NEVER;
}

uint64_t gpud_session_flush(struct gpud_session *session, uint64_t now, bool *full)
{
    uint64_t again = GPUD_NEVER;

    *full = false;
    if (session->state == GPUD_SESSION_MAPPED || session->state == GPUD_SESSION_READY)
        pay_debts(session, full);
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES && session->state == GPUD_SESSION_READY && !*full; device++) {
        uint64_t due = tell_edge(session, device, now, full);
        again = due < again ? due : again;
    }
    return again;
}

void gpud_session_bye(struct gpud_session *session)
{
    struct gpud_msg_plain bye = { { GPUD_WIRE_MAGIC, GPUD_MSG_BYE, sizeof bye } };
    bool full = false;

    if (session->state >= GPUD_SESSION_HELLO && session->state <= GPUD_SESSION_READY)
        gpud_session_send(session, &bye, sizeof bye, NULL, 0, &full);
}

void gpud_session_forget(struct gpud_session *session)
{
    gpud_session_drop_spare(session);
    gpud_descriptor_drop(&session->socket);
    gpud_descriptor_drop(&session->presence);
    gpud_descriptor_drop(&session->activity);
}
