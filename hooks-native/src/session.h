/* session.h: the client's side of the protocol of gpud_wire.h. Used by the keeper thread only. */
#ifndef GPUD_SESSION_H
#define GPUD_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include "config.h"
#include "descriptor.h"
#include "page.h"
#include "gpud_wire.h"

#pragma GCC visibility push(hidden)

#define GPUD_SPARE_FDS 4        /* WELCOME brings 3 */

enum gpud_session_state {
    GPUD_SESSION_CLOSED,    /* no connection; the next try is at retry_ns */
    GPUD_SESSION_HELLO,     /* HELLO sent, PING awaited */
    GPUD_SESSION_PONG,      /* PONG sent, WELCOME awaited */
    GPUD_SESSION_MAPPED,    /* pages mapped, DEVICES to be sent, DEVICE_SLOTS awaited */
    GPUD_SESSION_READY,
    GPUD_SESSION_OFF,       /* refused for good */
};

struct gpud_session {
    const struct gpud_config *config;
    enum gpud_session_state state;
    struct gpud_descriptor socket, presence, activity;
    struct gpud_descriptor spare[GPUD_SPARE_FDS];   /* numbers kept free for the descriptors that packets bring: the socket again */
    uint32_t client;
    uint64_t generation;        /* of own pages; 0: none yet */
    bool reattach;              /* own pages are kept, and the daemon is asked to adopt them */
    bool quiet;                 /* an outcome has been told to the user already */
    uint64_t retry_ns, pause_ns;    /* CLOSED: next try, and how long the pause before it was */
    uint64_t ready_ns;          /* when it became READY */
    uint64_t deadline_ns;       /* of the answer awaited; UINT64_MAX: none is */
    uint64_t give_up_ns;        /* when waiting for answers ends for good */
    /* To be sent as soon as the socket takes it. */
    bool owe_mapped, owe_devices, owe_peers_mapped;
    uint32_t peers_serial, peers_mapped;
    uint32_t devices;           /* how many DEVICES named */
    uint64_t peer_generation[GPUD_MAX_PRESENT];     /* of the pages mapped; 0: none */
    uint32_t edges_sent[GPUD_MAX_DEVICES];
    uint64_t edge_sent_ns[GPUD_MAX_DEVICES];
};

void gpud_session_start(struct gpud_session *session, const struct gpud_config *config);
/* Connects if it is time to. */
void gpud_session_try(struct gpud_session *session, uint64_t now);
/* Reads and handles all that has come. */
void gpud_session_read(struct gpud_session *session);
/* Takes the numbers that are missing; drops them all. */
void gpud_session_take_spare(struct gpud_session *session);
void gpud_session_drop_spare(struct gpud_session *session);
/* Sends what is owed and the edges that are due. Returns when it must be called again; `full`: when the socket can be written. */
uint64_t gpud_session_flush(struct gpud_session *session, uint64_t now, bool *full);
/* The awaited answer has not come. */
void gpud_session_late(struct gpud_session *session, uint64_t now);
void gpud_session_bye(struct gpud_session *session);
/* Forked child: the parent's descriptors are closed, nothing is said. */
void gpud_session_forget(struct gpud_session *session);

/* Within session*.c. */
void gpud_session_close(struct gpud_session *session, uint64_t shortest_pause_ns);
/* Closes because of `what` the daemon sent. */
void gpud_session_nonsense(struct gpud_session *session, const char *what);
/* One whole packet with its descriptors (taken over). */
void gpud_session_message(struct gpud_session *session, const void *packet, size_t bytes, int *fds, uint32_t fd_count);
/* Asks the driver for the devices; false if it does not answer. */
bool gpud_session_devices(struct gpud_msg_devices *message);
bool gpud_session_send(struct gpud_session *session, const void *message, size_t bytes, const int *fds, uint32_t fd_count,
                       bool *full);
/* The messages that bring pages; the descriptors are taken over. */
void gpud_session_welcome(struct gpud_session *session, const struct gpud_msg_welcome *welcome, int *fds, uint32_t count);
void gpud_session_peers(struct gpud_session *session, const struct gpud_msg_peers *peers, int *fds, uint32_t count);
void gpud_session_close_all(int *fds, uint32_t count);
/* From now on launches go as if there were no gate; what is held goes on. */
void gpud_session_let_go(void);

#pragma GCC visibility pop
#endif
