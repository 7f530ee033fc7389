/* daemon.c: see daemon.h. */
#define _GNU_SOURCE
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

static char directory[64];

static void clean_up(void)
{
    char path[96];
    snprintf(path, sizeof path, "%s/hook.sock", directory);
    unlink(path);
    rmdir(directory);
}

void player_directory(void)
{
    snprintf(directory, sizeof directory, "/tmp/gpud-gate-XXXXXX");
    if (mkdtemp(directory) == NULL)
        abort();
    setenv("GPUD_RUNTIME_DIR", directory, 1);
    atexit(clean_up);
}

void player_listen(struct player *player)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    *player = (struct player){ .socket = -1, .control_fd = -1, .presence_fd = -1, .activity_fd = -1, .client = player->client + 1 };
    snprintf(address.sun_path, sizeof address.sun_path, "%s/hook.sock", directory);
    unlink(address.sun_path);
    player->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (bind(player->listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(player->listener, 4) != 0)
        abort();
}

void player_stop(struct player *player)
{
    close(player->socket);
    close(player->listener);
    player->socket = player->listener = -1;
}

static bool readable(int fd, int ms)
{
    struct pollfd on = { .fd = fd, .events = POLLIN };
    return poll(&on, 1, ms) == 1;
}

bool player_accept(struct player *player, int ms)
{
    if (player->socket >= 0)
        close(player->socket);
    player->socket = readable(player->listener, ms) ? accept4(player->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    return player->socket >= 0;
}

/* One packet; its type, or 0 (end, or nothing in time). */
static uint16_t receive(struct player *player, int ms)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * 4)];
    } control;
    struct iovec part = { player->packet, sizeof player->packet };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room,
                              .msg_controllen = sizeof control.room };
    const struct gpud_msg *head = (const struct gpud_msg *)(const void *)player->packet;

    player->fd_count = 0;
    if (!readable(player->socket, ms))
        return 0;
    ssize_t bytes = recvmsg(player->socket, &message, MSG_CMSG_CLOEXEC);
    if (bytes < (ssize_t)sizeof *head || head->magic != GPUD_WIRE_MAGIC || head->bytes != (size_t)bytes)
        return 0;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    if (rights != NULL) {
        player->fd_count = (uint32_t)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(player->fds, CMSG_DATA(rights), player->fd_count * sizeof(int));
    }
    return head->type;
}

const void *player_expect(struct player *player, uint16_t type)
{
    for (;;) {
        uint16_t got = receive(player, PLAYER_MS);
        if (got == type)
            return player->packet;
        if (got != GPUD_MSG_WENT_ACTIVE && got != GPUD_MSG_WENT_IDLE) {
            fprintf(stderr, "expected message %u, got %u\n", type, got);
            return NULL;
        }
    }
}

bool player_closed(struct player *player, int ms)
{
    uint64_t until = gpud_now() + (uint64_t)ms * GPUD_MILLISECOND;
    char byte;

    do {
        if (readable(player->socket, ms < 10 ? ms : 10) && recv(player->socket, &byte, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN)
            return true;
    } while (gpud_now() < until);
    return false;
}

void player_send(struct player *player, const void *message, size_t bytes, const int *fds, uint32_t fd_count)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * 32)];
    } control;
    struct iovec part = { (void *)(uintptr_t)message, bytes };
    struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };

    if (fd_count > 0) {
        memset(&control, 0, sizeof control);
        packet.msg_control = control.room;
        packet.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * fd_count);
    }
    if (sendmsg(player->socket, &packet, MSG_NOSIGNAL) < 0)
        perror("the player cannot send");
}

void player_say(struct player *player, uint16_t type, uint32_t code, const char *text)
{
    _Alignas(8) unsigned char packet[512];
    struct gpud_msg_text *message = (struct gpud_msg_text *)(void *)packet;
    size_t length = strlen(text);

    message->head = (struct gpud_msg){ GPUD_WIRE_MAGIC, type, (uint32_t)(sizeof *message + length) };
    message->code = code;
    message->text_bytes = (uint32_t)length;
    memcpy(message + 1, text, length);
    player_send(player, packet, sizeof *message + length, NULL, 0);
}

int player_page(uint32_t kind, size_t bytes, uint64_t generation)
{
    struct gpud_page_header header = { .magic = GPUD_PAGE_MAGIC, .version = GPUD_PAGE_VERSION, .kind = (uint16_t)kind,
                                       .size = (uint32_t)bytes, .generation = generation, .epoch_ns = gpud_now() };
    int fd = memfd_create("gpud-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || posix_fallocate(fd, 0, (off_t)bytes) != 0 || pwrite(fd, &header, sizeof header, 0) != sizeof header ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        abort();
    return fd;
}

static void *map(int fd, size_t bytes, int protection)
{
    void *at = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        abort();
    return at;
}

void player_control(struct player *player)
{
    player->control_fd = player_page(GPUD_PAGE_CONTROL, GPUD_CONTROL_BYTES, 1);
    player->control = map(player->control_fd, GPUD_CONTROL_BYTES, PROT_READ | PROT_WRITE);
    player->control->lease_until_ns = gpud_now() + 3600 * GPUD_SECOND;
    player->control->failsafe_after_ns = 30 * GPUD_SECOND;
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        player->control->device[device] = (struct gpud_control_device){ .rank = 1, .pass_launches = 1, .generation = 1,
                                                                        .resume_after_ns = GPUD_MILLISECOND,
                                                                        .max_pause_ns = UINT64_MAX };
    }
}

void player_pages(struct player *player, uint64_t generation)
{
    player_control(player);
    player->generation = generation;
    player->presence_fd = player_page(GPUD_PAGE_PRESENCE, GPUD_PRESENCE_BYTES, generation);
    player->activity_fd = player_page(GPUD_PAGE_ACTIVITY, GPUD_ACTIVITY_BYTES, generation);
    player->presence = map(player->presence_fd, GPUD_PRESENCE_BYTES, PROT_READ);
    player->activity = map(player->activity_fd, GPUD_ACTIVITY_BYTES, PROT_READ);
}

bool player_hello(struct player *player)
{
    struct gpud_msg_nonce ping = { { GPUD_WIRE_MAGIC, GPUD_MSG_PING, sizeof ping }, 0x1234567890abcdef };
    const struct gpud_msg_nonce *pong;

    if (!player_accept(player, PLAYER_MS) || player_expect(player, GPUD_MSG_HELLO) == NULL)
        return false;
    memcpy(&player->hello, player->packet, sizeof player->hello);
    if (player->fd_count == 2) {
        player->presence_fd = player->fds[0];
        player->activity_fd = player->fds[1];
    }
    player_send(player, &ping, sizeof ping, NULL, 0);
    pong = player_expect(player, GPUD_MSG_PONG);
    return pong != NULL && pong->nonce == ping.nonce;
}

bool player_welcome(struct player *player, bool all_pages)
{
    struct gpud_msg_welcome welcome = {
        .head = { GPUD_WIRE_MAGIC, GPUD_MSG_WELCOME, sizeof welcome }, .version = 1, .client = player->client,
        .generation = player->generation, .control_bytes = GPUD_CONTROL_BYTES, .presence_bytes = GPUD_PRESENCE_BYTES,
        .activity_bytes = GPUD_ACTIVITY_BYTES, .job = 7,
    };
    struct gpud_msg_device_slots slots = { .head = { GPUD_WIRE_MAGIC, GPUD_MSG_DEVICE_SLOTS, sizeof slots } };
    int fds[3] = { player->control_fd, player->presence_fd, player->activity_fd };
    const struct gpud_msg_devices *devices;

    player_send(player, &welcome, sizeof welcome, fds, all_pages ? 3 : 1);
    if (player_expect(player, GPUD_MSG_MAPPED) == NULL || (devices = player_expect(player, GPUD_MSG_DEVICES)) == NULL)
        return false;
    slots.count = devices->count;
    for (uint32_t i = 0; i < GPUD_MAX_DEVICES; i++)
        slots.slot[i] = i < devices->count ? i : UINT32_MAX;
    player_send(player, &slots, sizeof slots, NULL, 0);
    return true;
}

void player_attach(struct player *player)
{
    player_pages(player, 100 + player->client);
    bool attached = player_hello(player) && player_welcome(player, true);
    CHECK(attached, "the client attaches");
    EVENTUALLY(gpud_load_acquire(&gpud_managed), "launches are managed");
}

bool player_peers(struct player *player, const struct gpud_peer_page *peers, uint16_t count, const int *fds, uint16_t fd_count)
{
    static uint32_t serial;
    struct gpud_msg_peers message = { .head = { GPUD_WIRE_MAGIC, GPUD_MSG_PEERS, sizeof message }, .serial = ++serial,
                                      .count = count, .descriptors = fd_count };
    const struct gpud_msg_peers_mapped *mapped;

    memcpy(message.peer, peers, count * sizeof *peers);
    player_send(player, &message, sizeof message, fds, fd_count);
    mapped = player_expect(player, GPUD_MSG_PEERS_MAPPED);
    return mapped != NULL && mapped->serial == serial && mapped->mapped == count;
}

static void *initialise(void *unused)
{
    gpud_initialised();
    return unused;
}

void client_initialise(void)
{
    pthread_t thread;

    gpud_start();
    pthread_create(&thread, NULL, initialise, NULL);
    pthread_detach(thread);
}
