/* daemon.h: plays the daemon, step by step, in the process of the client under test. */
#ifndef GPUD_TEST_DAEMON_H
#define GPUD_TEST_DAEMON_H

#include "fake.h"
#include "gpud_wire.h"

#define PLAYER_MS 60000         /* so long the player waits for what is to come */

struct player {
    int listener, socket;
    uint32_t client;
    uint64_t generation;
    int control_fd, presence_fd, activity_fd;
    struct gpud_control_page *control;              /* the daemon's view: writable */
    const struct gpud_presence_page *presence;
    const struct gpud_activity_page *activity;
    _Alignas(8) unsigned char packet[GPUD_WIRE_MAX_BYTES];  /* the message received last */
    int fds[4];
    uint32_t fd_count;
    struct gpud_msg_hello hello;
};

/* A directory for the socket, named to the hook by GPUD_RUNTIME_DIR. */
void player_directory(void);
void player_listen(struct player *player);
void player_stop(struct player *player);            /* as a daemon that died: both sockets are closed */
/* Waits for a connection, at most `ms`. */
bool player_accept(struct player *player, int ms);
/* Waits for a message of this type (edges that come before it are skipped), at most PLAYER_MS; NULL if another or none comes. */
const void *player_expect(struct player *player, uint16_t type);
bool player_closed(struct player *player, int ms);  /* the client closes the connection within `ms` */
void player_send(struct player *player, const void *message, size_t bytes, const int *fds, uint32_t fd_count);
void player_say(struct player *player, uint16_t type, uint32_t code, const char *text);     /* REFUSED, DETACH */

int player_page(uint32_t kind, size_t bytes, uint64_t generation);
/* New pages, all gates open, a lease of an hour. */
void player_pages(struct player *player, uint64_t generation);
void player_control(struct player *player);         /* a new control page only */

/* The steps of an attach. */
bool player_hello(struct player *player);           /* accept, HELLO, PING, PONG */
bool player_welcome(struct player *player, bool all_pages);     /* WELCOME, MAPPED, DEVICES, DEVICE_SLOTS */
/* Everything with new pages; and waits until launches are managed. */
void player_attach(struct player *player);
bool player_peers(struct player *player, const struct gpud_peer_page *peers, uint16_t count, const int *fds, uint16_t fd_count);

/* gpud_initialised() in a thread of its own, since the caller plays the other side. */
void client_initialise(void);

#endif
