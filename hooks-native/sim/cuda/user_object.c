/* user_object.c: objects of the program whose life graphs can hold: a count of references and a function that ends them. */
#include <stdlib.h>

#include "user_object.h"

bool user_object_retain(void *handle, unsigned count) {
    if (!handle_ok(H_USER_OBJECT, handle))
        return false;
    atomic_fetch_add(&((struct user_object *)handle)->references, count);
    return true;
}

bool user_object_release(void *handle, unsigned count) {
    struct user_object *object = handle;
    if (!handle_ok(H_USER_OBJECT, object) || object->references < count)
        return false;
    if (atomic_fetch_sub(&object->references, count) == count) {
        object->destroy(object->data);
        handle_free(object);
    }
    return true;
}

ENTRY(cuUserObjectCreate, void **out, void *data, CUhostFn destroy, unsigned count, unsigned flags) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out || !destroy || !count || flags != 1)       /* CU_USER_OBJECT_NO_DESTRUCTOR_SYNC: must be set */
        return CUDA_ERROR_INVALID_VALUE;
    struct user_object *object = handle_new(H_USER_OBJECT);
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    object->references = count;
    object->data = data;
    object->destroy = destroy;
    *out = object;
    return CUDA_SUCCESS;
}

ENTRY(cuUserObjectRetain, void *object, unsigned count) {
    CUresult result = sim_ready();
    return result ? result : count && user_object_retain(object, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuUserObjectRelease, void *object, unsigned count) {
    CUresult result = sim_ready();
    return result ? result : count && user_object_release(object, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool keeping_add(struct keeping **list, void *object, unsigned count) {
    for (struct keeping *k = *list; k; k = k->next) {
        if (k->object == object) {
            k->count += count;
            return true;
        }
    }
    struct keeping *k = malloc(sizeof *k);
    if (!k)
        return false;
    *k = (struct keeping){*list, object, count};
    *list = k;
    return true;
}

bool keeping_copy(struct keeping **to, const struct keeping *from) {
    for (; from; from = from->next) {
        if (!keeping_add(to, from->object, from->count))
            return false;
        user_object_retain(from->object, from->count);
    }
    return true;
}

void keeping_end(struct keeping **list) {
    while (*list) {
        struct keeping *k = *list;
        *list = k->next;
        user_object_release(k->object, k->count);
        free(k);
    }
}

ENTRY(cuGraphRetainUserObject, CUgraph handle, void *object, unsigned count, unsigned flags) {
    CUresult result = sim_ready();
    if (result)
        return result;
    struct graph *graph = (struct graph *)handle;
    if (!handle_ok(H_GRAPH, graph) || !count || flags > 1 || !handle_ok(H_USER_OBJECT, object))
        return CUDA_ERROR_INVALID_VALUE;
    if (!keeping_add(&graph->keeping, object, count))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!flags)                         /* CU_GRAPH_USER_OBJECT_MOVE hands the caller's references over */
        user_object_retain(object, count);
    return CUDA_SUCCESS;
}

ENTRY(cuGraphReleaseUserObject, CUgraph handle, void *object, unsigned count) {
    CUresult result = sim_ready();
    if (result)
        return result;
    struct graph *graph = (struct graph *)handle;
    if (!handle_ok(H_GRAPH, graph) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct keeping **at = &graph->keeping; *at; at = &(*at)->next) {
        struct keeping *k = *at;
        if (k->object != object || k->count < count)
            continue;
        k->count -= count;
        user_object_release(object, count);
        if (!k->count) {
            *at = k->next;
            free(k);
        }
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}
