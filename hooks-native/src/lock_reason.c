/* lock_reason.c: what the program says its turns are for, in the activity page, for those who wait for the device. */
#include <pthread.h>
#include <string.h>

#include "lock.h"
#include "state.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t said_of;                        /* bit per device */
static uint8_t text[GPUD_REASON_BYTES];         /* zeros after it; the last one that was given */

/* Mutex held. Who reads meanwhile sees no reason. */
static void tell(void)
{
    struct gpud_activity_page *page = gpud_activity();

    gpud_store_total(&page->reason_slots, 0);
    for (uint32_t i = 0; i < GPUD_REASON_BYTES; i++)
        gpud_store(&page->reason[i], text[i]);
    gpud_store_total(&page->reason_slots, said_of);
}

void gpud_lock_reason(uint32_t slots, const char *reason)
{
    size_t bytes = reason != NULL ? strnlen(reason, GPUD_REASON_BYTES) : 0;

    if (bytes == 0)
        return;
    while (bytes > 0 && ((unsigned char)reason[bytes] & 0xc0) == 0x80)      /* no character is cut in two */
        bytes--;
    pthread_mutex_lock(&mutex);
    memset(text, 0, sizeof text);
    memcpy(text, reason, bytes);
    gpud_store_total(&said_of, slots);
    tell();
    pthread_mutex_unlock(&mutex);
}

void gpud_lock_reason_ends(uint32_t slots)
{
    if (!(gpud_load_total(&said_of) & slots))
        return;
    pthread_mutex_lock(&mutex);
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        if (slots & 1u << device && gpud_lock_turns(device) == 0)
            gpud_store_total(&said_of, said_of & ~(1u << device));
    }
    tell();
    pthread_mutex_unlock(&mutex);
}

void gpud_lock_reason_again(void)
{
    pthread_mutex_lock(&mutex);
    tell();
    pthread_mutex_unlock(&mutex);
}

void gpud_lock_reason_forget(void)
{
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    said_of = 0;
}
