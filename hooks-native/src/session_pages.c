/* session_pages.c: the messages that bring pages. Nothing of them is mapped before it is checked. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include "log.h"
#include "presence.h"
#include "session.h"
#include "spent.h"
#include "state.h"

#define SULK_NS (2 * GPUD_SECOND)
#define DRAIN_WITHIN_NS (200 * GPUD_MILLISECOND)

void gpud_session_close_all(int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

void gpud_session_let_go(void)
{
    gpud_store(&gpud_was_managed, 1);
    gpud_store_release(&gpud_managed, 0);
    gpud_word_raise(0, 0);
    gpud_wake_held();
}

/* New pages in place of those of an earlier attachment: only when no launch has its marks in those. */
static int map_own(int presence_fd, int activity_fd)
{
    bool had_pages = gpud_activity()->header.magic == GPUD_PAGE_MAGIC;
    uint64_t deadline = gpud_now() + DRAIN_WITHIN_NS;

    if (had_pages) {
        gpud_session_let_go();
        gpud_slots_outdate();
        gpud_barrier();
        for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
            struct gpud_marks marks = gpud_marks(device);
            while (marks.entered != marks.left) {
                if (gpud_now() > deadline)
                    return -EBUSY;
                struct timespec nap = { .tv_nsec = 100000 };
                nanosleep(&nap, NULL);
                marks = gpud_marks(device);
            }
        }
    }
    gpud_presence_carry();
    int failure = gpud_map_own(presence_fd, activity_fd);
    gpud_presence_carried();
    gpud_slots_renew();
    gpud_spent_renew();
    gpud_word_raise(0, 0);
    return failure;
}

static const char *check_pages(const struct gpud_session *session, const struct gpud_msg_welcome *welcome, const int *fds,
                               uint32_t count)
{
    const char *wrong;

    if (welcome->version < GPUD_WIRE_VERSION_MIN || welcome->version > GPUD_WIRE_VERSION_MAX)
        return "a WELCOME of a version that was not offered";
    if (welcome->control_bytes < sizeof(struct gpud_control_page) || welcome->presence_bytes < sizeof(struct gpud_presence_page) ||
        welcome->activity_bytes < sizeof(struct gpud_activity_page))
        return "pages that are too short";
    if (count == 1 && (!session->reattach || welcome->generation != session->generation))
        return "a WELCOME to pages that this client does not have";
    if (welcome->generation == 0)
        return "a WELCOME without generation";
    if ((wrong = gpud_page_check(fds[0], GPUD_PAGE_CONTROL, sizeof(struct gpud_control_page), 0)) != NULL)
        return wrong;
    if (count == 3 && (wrong = gpud_page_check(fds[1], GPUD_PAGE_PRESENCE, sizeof(struct gpud_presence_page),
                                               welcome->generation)) != NULL)
        return wrong;
    if (count == 3 && (wrong = gpud_page_check(fds[2], GPUD_PAGE_ACTIVITY, sizeof(struct gpud_activity_page),
                                               welcome->generation)) != NULL)
        return wrong;
    return NULL;
}

void gpud_session_welcome(struct gpud_session *session, const struct gpud_msg_welcome *welcome, int *fds, uint32_t count)
{
    const char *wrong = count == 1 || count == 3 ? NULL : "a WELCOME without the pages it needs";
    int failure = 0;

    if (session->state != GPUD_SESSION_PONG)
        wrong = "WELCOME out of order";
    if (wrong == NULL)
        wrong = check_pages(session, welcome, fds, count);
    if (wrong != NULL) {
        gpud_session_close_all(fds, count);
        gpud_session_nonsense(session, wrong);
        return;
    }
    if (count == 3) {
        failure = map_own(fds[1], fds[2]);
        if (failure == 0) {
            gpud_descriptor_drop(&session->presence);
            gpud_descriptor_drop(&session->activity);
            gpud_descriptor_keep(&session->presence, fds[1]);
            gpud_descriptor_keep(&session->activity, fds[2]);
            fds[1] = fds[2] = -1;
            session->generation = welcome->generation;
            memset(session->edges_sent, 0, sizeof session->edges_sent);
        } else if (failure != -EBUSY) {
            session->generation = 0;    /* the pages of before are not mapped any more either */
        }
    }
    if (failure == 0)
        failure = gpud_map_control(fds[0]);
    gpud_session_close_all(fds, count);
    if (failure != 0) {
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_PAGES, "the pages of the daemon cannot be mapped (%s): this program runs without gpud "
                 "and tries again; is its memory limited?", strerror(-failure));
        gpud_session_close(session, SULK_NS);
        return;
    }
    session->client = welcome->client;
    session->state = GPUD_SESSION_MAPPED;
    session->owe_mapped = session->owe_devices = true;
    gpud_word_raise(0, 0);      /* what threads know of the page before it does not hold for this one */
    gpud_add(&gpud_activity()->attaches, 1);
    memset(session->edge_sent_ns, 0, sizeof session->edge_sent_ns);
    if (count == 1)         /* a daemon that has just begun knows no edge: the next flush tells it the state */
        for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
            session->edges_sent[device] = GPUD_EDGE_ACTIVE(gpud_load(gpud_edge_word(gpud_presence_at(device))))
                                              ? UINT32_MAX
                                              : GPUD_EDGE_COUNT(gpud_load(gpud_edge_word(gpud_presence_at(device))));
    gpud_log(GPUD_LOG_INFO, GPUD_ONCE_NOT, "attached to the daemon as client %u", session->client);
}

static const char *check_peers(const struct gpud_msg_peers *peers, uint32_t fd_count)
{
    uint64_t seen = 0;

    if (peers->count > GPUD_MAX_PEERS || peers->descriptors > peers->count || peers->descriptors != fd_count)
        return "PEERS with counts that do not fit";
    for (uint32_t i = 0; i < peers->count; i++) {
        uint32_t present = peers->peer[i].present;
        if (present >= GPUD_MAX_PRESENT || seen & UINT64_C(1) << present)
            return "PEERS with an index that is too large or used twice";
        if (peers->peer[i].generation == 0)
            return "PEERS without generation";
        seen |= UINT64_C(1) << present;
    }
    return NULL;
}

void gpud_session_peers(struct gpud_session *session, const struct gpud_msg_peers *peers, int *fds, uint32_t fd_count)
{
    uint64_t wanted[GPUD_MAX_PRESENT] = { 0 };
    const char *wrong = session->state < GPUD_SESSION_MAPPED ? "PEERS out of order" : check_peers(peers, fd_count);
    uint32_t mapped = 0;

    if (wrong != NULL) {
        gpud_session_close_all(fds, fd_count);
        gpud_session_nonsense(session, wrong);
        return;
    }
    for (uint32_t i = 0; i < peers->count; i++)
        wanted[peers->peer[i].present] = peers->peer[i].generation;
    gpud_word_raise(0, 0);      /* threads look anew, and again once all is in place */
    for (uint32_t present = 0; present < GPUD_MAX_PRESENT; present++) {
        if (session->peer_generation[present] != 0 && session->peer_generation[present] != wanted[present]) {
            gpud_unmap_peer(present);
            session->peer_generation[present] = 0;
        }
    }
    for (uint32_t i = 0; i < peers->count; i++) {
        const struct gpud_peer_page *peer = &peers->peer[i];
        if (i < fd_count &&
            gpud_page_check(fds[i], GPUD_PAGE_PRESENCE, sizeof(struct gpud_presence_page), peer->generation) == NULL &&
            gpud_map_peer(peer->present, fds[i]) == 0)
            session->peer_generation[peer->present] = peer->generation;
        mapped += session->peer_generation[peer->present] == peer->generation;
    }
    gpud_word_raise(0, 0);
    gpud_session_close_all(fds, fd_count);
    session->peers_serial = peers->serial;
    session->peers_mapped = mapped;
    session->owe_peers_mapped = true;
    gpud_wake_held();
}
