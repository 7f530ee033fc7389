/* session_message.c: what the daemon says. Nothing of it is believed before it is checked. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "contexts.h"
#include "cost.h"
#include "entry.h"
#include "hookless.h"
#include "keeper.h"
#include "lock.h"
#include "log.h"
#include "quota_wait.h"
#include "real.h"
#include "session.h"
#include "state.h"
#include "swap_ask.h"

#define SULK_NS (2 * GPUD_SECOND)
#define IN_LINE_SLACK_S 5u      /* the daemon says when it is over; this is for one that does not */

static void on_ping(struct gpud_session *session, const struct gpud_msg_nonce *ping)
{
    struct gpud_msg_nonce pong = { { GPUD_WIRE_MAGIC, GPUD_MSG_PONG, sizeof pong }, ping->nonce };
    bool full = false;

    if (session->state != GPUD_SESSION_HELLO) {
        gpud_session_nonsense(session, "PING out of order");
        return;
    }
    session->state = GPUD_SESSION_PONG;
    if (!gpud_session_send(session, &pong, sizeof pong, NULL, 0, &full) && full)
        gpud_session_close(session, 0);
}

static void on_device_slots(struct gpud_session *session, const struct gpud_msg_device_slots *slots)
{
    uint32_t seen = 0;

    if (session->state != GPUD_SESSION_MAPPED && session->state != GPUD_SESSION_READY) {
        gpud_session_nonsense(session, "DEVICE_SLOTS out of order");
        return;
    }
    if (slots->count != session->devices || slots->count > GPUD_MAX_DEVICES) {
        gpud_session_nonsense(session, "DEVICE_SLOTS for another number of devices");
        return;
    }
    for (uint32_t i = 0; i < slots->count; i++) {
        uint32_t slot = slots->slot[i];
        if (slot == UINT32_MAX)
            continue;
        if (slot >= GPUD_MAX_DEVICES || seen & 1u << slot) {
            gpud_session_nonsense(session, "a device slot that does not exist or is taken twice");
            return;
        }
        seen |= 1u << slot;
    }
    for (uint32_t i = 0; i < GPUD_MAX_DEVICES; i++) {
        uint32_t slot = i < slots->count ? slots->slot[i] : UINT32_MAX;
        if (gpud_load(&gpud_slot_of[i]) != slot && gpud_load(&gpud_slot_of[i]) != UINT32_MAX)
            gpud_unnoted(i);        /* what is noted under the slot is another device's */
        gpud_store(&gpud_slot_of[i], slot);
    }
    if (seen == 0 && slots->count != 0)
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_UNMANAGED, "the daemon manages none of this program's %u devices: its launches are "
                 "not arbitrated", slots->count);
    gpud_hookless_told(slots->count);
    gpud_store_release(&gpud_managed, 1);
    gpud_word_raise(0, 0);
    gpud_alloc_publish();
    gpud_cost_publish();
    if (session->state == GPUD_SESSION_MAPPED)
        session->ready_ns = gpud_now();
    session->state = GPUD_SESSION_READY;
    session->deadline_ns = GPUD_NEVER;
    gpud_keeper_outcome();
}

/* The program waits in line to be let in: nobody is late. One that went on meanwhile asks anew, as one that runs already. */
static void on_queued(struct gpud_session *session, uint32_t seconds, const char *text)
{
    if (session->state != GPUD_SESSION_PONG) {
        gpud_session_nonsense(session, "QUEUED out of order");
        return;
    }
    if (!gpud_keeper_waits()) {
        gpud_session_close(session, 0);
        return;
    }
    bool bounded = seconds != UINT32_MAX;
    session->deadline_ns = session->give_up_ns = bounded ? gpud_now() + (seconds + IN_LINE_SLACK_S) * GPUD_SECOND : GPUD_NEVER;
    gpud_keeper_in_line(session->deadline_ns);
    if (bounded)
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_IN_LINE, "this program waits in line for %u s at most: %s", seconds, text);
    else
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_IN_LINE, "this program waits in line: %s", text);
}

static void on_refused(struct gpud_session *session, uint32_t code, const char *text)
{
    if (code == GPUD_REFUSED_ADMISSION && !gpud_keeper_waits()) {
        gpud_session_close(session, 0);     /* it went on meanwhile, and asks anew, as one that runs already */
        return;
    }
    gpud_log(GPUD_LOG_WARNING, code == GPUD_REFUSED_DRAINING ? GPUD_ONCE_DETACHED : GPUD_ONCE_REFUSED,
             "the daemon refuses this program: %s", text);
    if (code == GPUD_REFUSED_ADMISSION)
        gpud_keeper_shut_out();
    if (code == GPUD_REFUSED_VERSION || code == GPUD_REFUSED_POLICY || code == GPUD_REFUSED_ADMISSION)
        session->state = GPUD_SESSION_OFF;
    if (code == GPUD_REFUSED_IDENTITY || code == GPUD_REFUSED_PROTOCOL)
        session->generation = 0;        /* it does not adopt these pages: next time new ones */
    gpud_session_close(session, SULK_NS);
}

static void on_text(struct gpud_session *session, const struct gpud_msg_text *message)
{
    char text[400];
    uint32_t bytes = message->text_bytes < sizeof text - 1 ? message->text_bytes : sizeof text - 1;

    memcpy(text, message + 1, bytes);
    text[bytes] = 0;
    if (message->head.type == GPUD_MSG_REFUSED) {
        on_refused(session, message->code, text);
        return;
    }
    if (message->head.type == GPUD_MSG_LOCK_REFUSED) {
        gpud_session_lock_refused(message->code, text);
        return;
    }
    if (message->head.type == GPUD_MSG_QUEUED) {
        on_queued(session, message->code, text);
        return;
    }
    gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_DETACHED, "the daemon has let this program go (%s): it runs on without gpud", text);
    gpud_session_let_go();
    session->generation = 0;
    gpud_session_close(session, GPUD_SECOND);
}

bool gpud_session_devices(struct gpud_msg_devices *message)
{
    const struct gpud_real *driver = &real;
    struct gpud_real theirs;
    int count = 0;

    if (gpud_hookless) {
        gpud_hookless_driver(&theirs);
        driver = &theirs;
    }
    memset(message, 0, sizeof *message);
    message->head = (struct gpud_msg){ GPUD_WIRE_MAGIC, GPUD_MSG_DEVICES, sizeof *message };
    gpud_add_total(&gpud_asking, 1);        /* whoever ends the process waits until we are out of the driver */
    bool answered = !gpud_load_total(&gpud_exiting) && driver->cuDeviceGetCount != NULL &&
                    driver->cuDeviceGetCount(&count) == CUDA_SUCCESS;
    for (int i = 0; answered && i < count && i < GPUD_MAX_DEVICES; i++) {
        CUdevice device = i;
        CUuuid uuid = { { 0 } };
        size_t bytes = 0;
        if (driver->cuDeviceGet != NULL)
            driver->cuDeviceGet(&device, i);
        /* The first names a MIG instance itself. Where neither answers, the daemon knows no such device: it is not managed. */
        if ((driver->cuDeviceGetUuid_v2 == NULL || driver->cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS) &&
            driver->cuDeviceGetUuid != NULL)
            driver->cuDeviceGetUuid(&uuid, device);
        if (driver->cuDeviceTotalMem_v2 != NULL)
            driver->cuDeviceTotalMem_v2(&bytes, device);
        memcpy(message->device[i].uuid, uuid.bytes, sizeof uuid.bytes);
        message->device[i].total_bytes = bytes;
        message->count = (uint32_t)i + 1;
    }
    gpud_sub_total(&gpud_asking, 1);
    return gpud_hookless ? gpud_hookless_named(message, answered) : answered;
}

/* The exact size that a message must have; 0: not one for us. */
static size_t size_of(const struct gpud_msg *head, size_t bytes)
{
    switch (head->type) {
    case GPUD_MSG_PING:
        return sizeof(struct gpud_msg_nonce);
    case GPUD_MSG_WELCOME:
        return sizeof(struct gpud_msg_welcome);
    case GPUD_MSG_DEVICE_SLOTS:
        return sizeof(struct gpud_msg_device_slots);
    case GPUD_MSG_PEERS:
        return sizeof(struct gpud_msg_peers);
    case GPUD_MSG_LOCK_GRANTED:
    case GPUD_MSG_LOCK_REVOKED:
        return sizeof(struct gpud_msg_lock);
    case GPUD_MSG_ALLOC_REPLY:
    case GPUD_MSG_SWAP_OUT:
    case GPUD_MSG_SLOTS:
        return sizeof(struct gpud_msg_memory);
    case GPUD_MSG_LOCK_REFUSED:
    case GPUD_MSG_REFUSED:
    case GPUD_MSG_DETACH:
    case GPUD_MSG_QUEUED:
        if (bytes < sizeof(struct gpud_msg_text))
            return sizeof(struct gpud_msg_text);
        return sizeof(struct gpud_msg_text) + ((const struct gpud_msg_text *)(const void *)head)->text_bytes;
    default:
        return 0;
    }
}

void gpud_session_message(struct gpud_session *session, const void *packet, size_t bytes, int *fds, uint32_t fd_count)
{
    const struct gpud_msg *head = packet;
    const char *wrong = NULL;

    if (bytes < sizeof *head || head->magic != GPUD_WIRE_MAGIC || head->bytes != bytes)
        wrong = "a packet that is no message of this protocol";
    else if (size_of(head, bytes) == 0)
        wrong = "a message of unknown type";
    else if (size_of(head, bytes) != bytes)
        wrong = "a message of the wrong size";
    else if (fd_count != 0 && head->type != GPUD_MSG_WELCOME && head->type != GPUD_MSG_PEERS && head->type != GPUD_MSG_SLOTS)
        wrong = "descriptors that belong to no message";
    if (wrong != NULL) {
        gpud_session_close_all(fds, fd_count);
        gpud_session_nonsense(session, wrong);
        return;
    }
    switch (head->type) {
    case GPUD_MSG_PING:
        on_ping(session, packet);
        break;
    case GPUD_MSG_WELCOME:
        gpud_session_welcome(session, packet, fds, fd_count);
        break;
    case GPUD_MSG_DEVICE_SLOTS:
        on_device_slots(session, packet);
        break;
    case GPUD_MSG_PEERS:
        gpud_session_peers(session, packet, fds, fd_count);
        break;
    case GPUD_MSG_LOCK_GRANTED:
    case GPUD_MSG_LOCK_REVOKED:
        gpud_session_lock(session, packet);
        break;
    case GPUD_MSG_ALLOC_REPLY:
        gpud_session_alloc_reply(session, packet);
        break;
    case GPUD_MSG_SWAP_OUT:
        gpud_session_swap_out(session, packet);
        break;
    case GPUD_MSG_SLOTS:
        gpud_session_slots(session, packet, fds, fd_count);
        break;
    default:
        on_text(session, packet);
    }
}
