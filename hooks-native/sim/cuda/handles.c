/* handles.c: arenas of handles. One range of addresses is reserved a type; a handle is a slot in it. So any value a program
 * passes can be checked (in range, on a slot, alive) without following a foreign pointer, and a freed handle is recognised
 * until its slot is used again, which is as late as possible. */
#include <stdalign.h>
#include <string.h>
#include <sys/mman.h>

#include "sim.h"
#include "work.h"
#include "array.h"
#include "image.h"
#include "space.h"
#include "user_object.h"

#define SLOTS (1u << 18)

struct arena { _Atomic(char *) base; size_t size; uint32_t used; struct handle *first_free, **last_free; pthread_mutex_t lock; };

#define ARENA(type) { .size = (sizeof(type) + 63) / 64 * 64, .lock = PTHREAD_MUTEX_INITIALIZER }
static struct arena arenas[H_TYPES] = {
    [H_CONTEXT] = ARENA(struct ctx), [H_STREAM] = ARENA(struct stream), [H_EVENT] = ARENA(struct event),
    [H_MODULE] = ARENA(struct module), [H_FUNCTION] = ARENA(struct function), [H_LIBRARY] = ARENA(struct library),
    [H_KERNEL] = ARENA(struct kernel), [H_LINK] = ARENA(struct linker), [H_POOL] = ARENA(struct pool),
    [H_GRAPH] = ARENA(struct graph), [H_NODE] = ARENA(struct node), [H_EXEC] = ARENA(struct exec),
    [H_USER_OBJECT] = ARENA(struct user_object), [H_PHYSICAL] = ARENA(struct physical), [H_ARRAY] = ARENA(struct array),
    [H_MIPMAP] = ARENA(struct mipmap),
};

/* Reserves the arena's addresses; pages come when they are touched. */
static bool arena_open(struct arena *arena) {
    if (arena->base)
        return true;
    void *base = mmap(NULL, arena->size * SLOTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    arena->base = base;
    arena->last_free = &arena->first_free;
    return true;
}

void *handle_new(enum handle_type type) {
    struct arena *arena = &arenas[type];
    struct handle *handle = NULL;
    pthread_mutex_lock(&arena->lock);
    /* Fresh slots first: a stale handle stays recognisable for as long as there are some (up to a bound on memory). */
    if (arena_open(arena)) {
        if (arena->first_free && arena->used >= 1024) {
            handle = arena->first_free;
            arena->first_free = handle->next_free;
            if (!arena->first_free)
                arena->last_free = &arena->first_free;
        } else if (arena->used < SLOTS) {
            handle = (struct handle *)(arena->base + arena->size * arena->used++);
        }
    }
    if (handle) {
        memset(handle, 0, arena->size);
        handle->type = type;
        handle->id = atomic_fetch_add(&sim.ids, 1) + 1;
        atomic_store(&handle->alive, 1);
    }
    pthread_mutex_unlock(&arena->lock);
    return handle;
}

void handle_free(void *pointer) {
    struct handle *handle = pointer;
    if (!handle)
        return;
    struct arena *arena = &arenas[handle->type];
    pthread_mutex_lock(&arena->lock);
    atomic_store(&handle->alive, 0);
    handle->next_free = NULL;
    *arena->last_free = handle;
    arena->last_free = &handle->next_free;
    pthread_mutex_unlock(&arena->lock);
}

bool handle_ok(enum handle_type type, const void *pointer) {
    struct arena *arena = &arenas[type];
    const char *base = arena->base;
    uintptr_t at = (uintptr_t)pointer - (uintptr_t)base;
    if (!base || (uintptr_t)pointer < (uintptr_t)base || at >= arena->size * (size_t)SLOTS || at % arena->size)
        return false;
    return atomic_load(&((struct handle *)pointer)->alive) == 1;
}
