/* real.c: finds the driver and its entries. No lock is held while libc's loader or the driver is asked (a thread that loads a
 * library holds the loader's lock and may come here from a constructor): every thread that comes before the table is there
 * looks everything up for itself, and the first to finish publishes. */
#define _GNU_SOURCE
#include "real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "classify.h"
#include "cuda_layout.h"
#include "entry.h"
#include "pointers.h"

struct gpud_real real;
struct gpud_real gpud_next;
double (*gpud_real_time_scale)(void);

/* All intercepted rows, in the order of the table. */
#define CU_GATE(since, name, ...) ROW(since, name)
#define CU_AFTER(kind, since, name, ...) ROW(since, name)
#define CU_BEFORE(kind, since, name, ...) ROW(since, name)
#define CU_AROUND(kind, since, name, ...) ROW(since, name)
#define CU_OWN(kind, since, name, ...) ROW(since, name)
#define ROW(since, name) #name,
const char *const gpud_row_names[] = {
#include "../tbl/cuda_symbols.h"
};
#undef ROW
#define ROWS ((int)(sizeof gpud_row_names / sizeof *gpud_row_names))
const int gpud_row_count = ROWS;

struct slot {
    const char *name;
    int since;
    size_t offset;          /* in struct gpud_real */
};
#define CU_GATE(since, name, ...) ROW(since, name)
#define CU_AFTER(kind, since, name, ...) ROW(since, name)
#define CU_BEFORE(kind, since, name, ...) ROW(since, name)
#define CU_AROUND(kind, since, name, ...) ROW(since, name)
#define CU_OWN(kind, since, name, ...) ROW(since, name)
#define ROW(since, name) { #name, since, offsetof(struct gpud_real, name) },
static const struct slot intercepted[] = {
#include "../tbl/cuda_symbols.h"
};
#define CU_NEED(since, name, ...) { #name, since, offsetof(struct gpud_real, name) },
static const struct slot needed[] = {
#include "../tbl/cuda_symbols.h"
};
#define NEEDED (sizeof needed / sizeof *needed)

struct found {
    struct gpud_real real, next;
    void *learned[sizeof intercepted / sizeof *intercepted];    /* a second pointer of the row; NULL mostly */
    void *time_scale;
};

static void **member(struct gpud_real *table, const struct slot *slot)
{
    return (void **)((char *)table + slot->offset);
}

/* Stands in for intercepted entries that the driver does not have. */
static CUresult not_there(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

/* `name` without _ptsz or _ptds and without _v2 … _v9, as cuGetProcAddress wants it. Returns the flags it wants. */
static cuuint64_t base_name(const char *name, char *base, size_t size)
{
    size_t length = strlen(name);
    cuuint64_t flags = 0;

    if (length > 5 && (!strcmp(name + length - 5, "_ptsz") || !strcmp(name + length - 5, "_ptds"))) {
        length -= 5;
        flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    }
    if (length > 3 && name[length - 3] == '_' && name[length - 2] == 'v')
        length -= 3;
    length = length < size ? length : size - 1;
    memcpy(base, name, length);
    base[length] = 0;
    return flags;
}

/* The driver's cuGetProcAddress answer for exactly this entry, or NULL. */
static void *ask_driver(const struct found *found, const struct slot *slot)
{
    char base[64];
    cuuint64_t flags = base_name(slot->name, base, sizeof base);
    CUdriverProcAddressQueryResult status = 0;
    void *pointer = NULL;
    CUresult result = CUDA_ERROR_NOT_FOUND;

    if (found->real.cuGetProcAddress_v2)
        result = found->real.cuGetProcAddress_v2(base, &pointer, slot->since, flags, &status);
    else if (found->real.cuGetProcAddress)
        result = found->real.cuGetProcAddress(base, &pointer, slot->since, flags);
    return result == CUDA_SUCCESS ? pointer : NULL;
}

static bool known(struct found *found, const void *pointer)
{
    for (int row = 0; row < ROWS; row++)
        if (*member(&found->real, &intercepted[row]) == pointer || found->learned[row] == pointer)
            return true;
    return false;
}

/* Some driver may answer look-ups with other pointers than its exports, or not export what it answers: learn those too. A
 * pointer that is another row's already (an older driver answering an older version) is not taken. */
static void learn(struct found *found)
{
    for (int row = 0; row < ROWS; row++) {
        void **own = member(&found->real, &intercepted[row]);
        void *pointer = ask_driver(found, &intercepted[row]);
        if (!pointer || known(found, pointer))
            continue;
        if (*own)
            found->learned[row] = pointer;
        else
            *own = pointer;
    }
    for (size_t i = 0; i < NEEDED; i++)
        if (!*member(&found->real, &needed[i]))
            *member(&found->real, &needed[i]) = ask_driver(found, &needed[i]);
}

/* Fills `found` from the driver behind `handle`. */
static void look_up(struct found *found, void *handle, bool chosen)
{
    memset(found, 0, sizeof *found);
    for (int row = 0; row < ROWS; row++)
        *member(&found->real, &intercepted[row]) = gpud_libc_dlsym(handle, intercepted[row].name);
    for (size_t i = 0; i < NEEDED; i++)
        *member(&found->real, &needed[i]) = gpud_libc_dlsym(handle, needed[i].name);
    found->time_scale = gpud_libc_dlsym(handle, "gpud_sim_time_scale");
    learn(found);
    for (int row = 0; row < ROWS; row++) {
        /* A driver chosen by GPUD_REAL_LIBCUDA replaces whatever the program is linked with. */
        void *after_us = chosen ? NULL : gpud_libc_dlsym(RTLD_NEXT, intercepted[row].name);
        void **own = member(&found->real, &intercepted[row]);
        if (!*own)
            *own = (void *)not_there;
        *member(&found->next, &intercepted[row]) = after_us ? after_us : *own;
    }
    for (size_t i = 0; i < NEEDED; i++)
        *member(&found->next, &needed[i]) = *member(&found->real, &needed[i]);
    dlerror();          /* what was missing is our affair: the program must not find our failures in dlerror() */
}

static void publish(const struct found *found)
{
    real = found->real;
    gpud_next = found->next;
    memcpy(&gpud_real_time_scale, &found->time_scale, sizeof found->time_scale);
    for (int row = 0; row < ROWS; row++) {
        void *own = *member(&real, &intercepted[row]);
        if (own != (void *)not_there)
            gpud_pointer_add(own, row);
        if (found->learned[row])
            gpud_pointer_add(found->learned[row], row);
    }
}

bool gpud_next_is_driver(int row)
{
    return *member(&gpud_next, &intercepted[row]) == *member(&real, &intercepted[row]);
}

bool gpud_real_resolve(bool load)
{
    enum { NOTHING, PUBLISHING, READY };
    static atomic_int state = NOTHING;
    static __thread bool busy __attribute__((tls_model("initial-exec")));

    if (atomic_load_explicit(&state, memory_order_acquire) == READY)
        return true;
    if (busy)           /* the driver, while it is loaded or asked, came back to us */
        return false;
    busy = true;
    gpud_remember();
    const char *chosen = secure_getenv("GPUD_REAL_LIBCUDA");
    chosen = chosen && *chosen ? chosen : NULL;
    void *handle = dlopen(chosen ? chosen : "libcuda.so.1", RTLD_LAZY | (load ? 0 : RTLD_NOLOAD));
    if (handle) {
        struct found found;
        int expected = NOTHING;
        look_up(&found, handle, chosen != NULL);
        if (atomic_compare_exchange_strong(&state, &expected, PUBLISHING)) {
            publish(&found);
            atomic_store_explicit(&state, READY, memory_order_release);
        }
        while (atomic_load_explicit(&state, memory_order_acquire) != READY)
            ;           /* another thread copies a few kilobytes */
    }
    busy = false;
    return handle != NULL;
}
