/* slots.c: one slot per launching thread and device, in the activity page. A slot's counts outlive its thread: the next
 * thread that claims it counts on. */
#define _GNU_SOURCE
#include <signal.h>

#include "budget.h"
#include "state.h"

#define SHARED_SLOT (GPUD_MAX_SLOTS - 1)
#define SHARED_THREAD UINT32_MAX    /* `thread` of the shared slot once it is in use */

/* Where a thread without a slot leaves its marks; several threads may write at once and nobody reads. */
static struct gpud_slot blank;
const uint32_t gpud_open_gate;
const uint64_t gpud_no_edge;

#define NEW_THREAD { .slot = &blank, .gate = &gpud_open_gate, .edge = &gpud_no_edge, .device = GPUD_UNMANAGED, .ordinal = UINT32_MAX }
__thread struct gpud_thread gpud_thread __attribute__((tls_model("initial-exec"))) = NEW_THREAD;

uint32_t gpud_attachment = 1;
uint32_t gpud_devices_used;
static uint32_t used[GPUD_MAX_DEVICES];     /* slots below this have been claimed at some time */
static uint32_t first[GPUD_MAX_DEVICES];    /* claims begin here */
static uint32_t users[GPUD_MAX_DEVICES];    /* threads that have a slot now */
static pthread_key_t exit_key;
static bool exit_key_made;

uint32_t gpud_slot_users(uint32_t device)
{
    uint32_t count = gpud_load(&users[device]);
    return count < 1 ? 1 : count < GPUD_MAX_SLOTS ? count : GPUD_MAX_SLOTS;
}

/* Gives a slot back. A thread that vanished between its marks (cancelled, killed) launches nothing any more. */
static void release(struct gpud_slot *slot)
{
    gpud_store(&slot->left, gpud_load(&slot->entered));
    gpud_store(&slot->holding, 0);
    gpud_store_release(&slot->thread, 0);
}

/* Thread exit. Launches made by destructors that run later claim anew, and set the key anew. */
static void thread_exits(void *unused)
{
    struct gpud_thread *thread = &gpud_thread;

    (void)unused;
    if (thread->attachment == gpud_load_acquire(&gpud_attachment)) {
        for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
            if (thread->slots[device] == NULL || thread->shared & 1u << device)
                continue;
            gpud_credit_release(device, thread->slots[device]);
            gpud_sub_total(&users[device], 1);
            release(thread->slots[device]);
        }
    }
    gpud_window_thread_gone(thread->id);
    *thread = (struct gpud_thread)NEW_THREAD;
}

void gpud_slots_start(void)
{
    if (!exit_key_made)
        exit_key_made = pthread_key_create(&exit_key, thread_exits) == 0;
}

void gpud_slots_forget(void)
{
    gpud_thread = (struct gpud_thread)NEW_THREAD;
    gpud_attachment++;
    gpud_devices_used = 0;
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        used[device] = first[device] = users[device] = 0;
}

/* From now on whoever takes a mark back knows that the page may be another one meanwhile. */
void gpud_slots_outdate(void)
{
    gpud_add_total(&gpud_attachment, 1);
}

/* New pages: a thread that has not launched since still points to its slot of before, and will mark it once more before it sees
 * that. So slots that were in use are claimed last. */
void gpud_slots_renew(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        uint32_t count = gpud_load(&used[device]);
        gpud_store(&first[device], count < SHARED_SLOT ? count : 0);
        gpud_store(&users[device], 0);
    }
    gpud_credit_renew();
    gpud_add_total(&gpud_attachment, 1);
}

/* Its thread ended without running destructors (a raw thread, or the key could not be made). */
static bool is_dead(uint32_t owner)
{
    int saved = errno;
    bool dead = owner != 0 && syscall(SYS_tgkill, getpid(), (pid_t)owner, 0) != 0 && errno == ESRCH;
    errno = saved;
    return dead;
}

/* From `owner` (0: nobody), unless another thread is faster. What it had under way is closed. */
static bool take(struct gpud_slot *slot, uint32_t owner, uint32_t id)
{
    if (!__atomic_compare_exchange_n(&slot->thread, &owner, id, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return false;
    gpud_store(&slot->left, gpud_load(&slot->entered));
    gpud_store(&slot->holding, 0);
    return true;
}

static void note_used(uint32_t device, uint32_t index)
{
    uint32_t before = gpud_load(&used[device]);
    while (before <= index && !__atomic_compare_exchange_n(&used[device], &before, index + 1, false, __ATOMIC_SEQ_CST,
                                                           __ATOMIC_RELAXED))
        ;
}

static struct gpud_slot *find_free(struct gpud_slot *slots, uint32_t device, uint32_t id)
{
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t step = 0; step < SHARED_SLOT; step++) {
            uint32_t i = (gpud_load(&first[device]) + step) % SHARED_SLOT;
            note_used(device, i);   /* before the first mark, so that no sum misses it */
            uint32_t owner = gpud_load(&slots[i].thread);
            if ((owner == 0 || (pass == 1 && is_dead(owner))) && take(&slots[i], owner, id)) {
                gpud_credit_release(device, &slots[i]);     /* whatever the one before left */
                if (owner == 0)
                    gpud_add_total(&users[device], 1);
                return &slots[i];
            }
        }
    }
    return NULL;
}

/* The calling thread's slot on a managed device. Never fails: beyond the last free one, all share the last. */
struct gpud_slot *gpud_slot_claim(struct gpud_thread *thread, uint32_t device)
{
    struct gpud_slot *slots = gpud_activity()->device[device].slots;
    uint32_t attachment = gpud_load_acquire(&gpud_attachment), bit = 1u << (device & 31);

    if (thread->attachment != attachment) {     /* new pages: nothing in them is ours yet */
        for (uint32_t i = 0; i < GPUD_MAX_DEVICES; i++)
            thread->slots[i] = NULL;
        thread->shared = 0;
        thread->attachment = attachment;
    }
    if (thread->slots[device] != NULL)
        return thread->slots[device];
    if (thread->id == 0)
        thread->id = (uint32_t)syscall(SYS_gettid);
    if (exit_key_made && pthread_getspecific(exit_key) == NULL)
        pthread_setspecific(exit_key, thread);

    struct gpud_slot *slot = find_free(slots, device, thread->id);
    if (slot == NULL) {
        slot = &slots[SHARED_SLOT];
        note_used(device, SHARED_SLOT);
        gpud_store(&slot->thread, SHARED_THREAD);
        thread->shared |= bit;
    }
    thread->slots[device] = slot;
    if (!(__atomic_fetch_or(&gpud_devices_used, bit, __ATOMIC_SEQ_CST) & bit))
        gpud_word_raise(0, 0);      /* from now on other devices' launches look at this one's peers too */
    return slot;
}

struct gpud_marks gpud_marks(uint32_t device)
{
    const struct gpud_slot *slots = gpud_activity()->device[device].slots;
    struct gpud_marks marks = { 0, 0 };
    uint32_t count = gpud_load_total(&used[device]);

    /* `left` of all before `entered` of any: both only grow, so equal sums mean that all was quiet in between. */
    for (uint32_t i = 0; i < count; i++)
        marks.left += gpud_load_acquire(&slots[i].left);
    for (uint32_t i = 0; i < count; i++)
        marks.entered += gpud_load_acquire(&slots[i].entered);
    return marks;
}
