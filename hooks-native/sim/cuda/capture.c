/* capture.c: stream capture: who is capturing, what goes into the graph, and how captures end. */
#include <stdlib.h>

#include "capture.h"

struct capture *captures;
_Atomic int captures_active;
__thread int capture_thread_mode = CAPTURE_GLOBAL;

struct capture *capture_implicit(const struct stream *stream) {
    if (!stream->legacy)
        return NULL;
    for (struct capture *c = captures; c; c = c->next)
        for (const struct stream *s = c->streams; s; s = s->next_captured)
            if (s->ctx == stream->ctx && !(s->flags & CU_STREAM_NON_BLOCKING))
                return c;
    return NULL;
}

/* The capture that work of the stream goes into; NULL: none. An error: neither that nor the stream. */
static CUresult capturing(const struct stream *stream, struct capture **out) {
    *out = NULL;
    if (!captures_active)
        return CUDA_SUCCESS;
    struct capture *capture = capture_implicit(stream);
    if (capture) {
        capture->status = CAPTURE_INVALIDATED;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    *out = stream->capture;
    return *out && (*out)->status == CAPTURE_INVALIDATED ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

/* A new node behind what the stream has; the next one comes behind it. */
static struct node *append(struct stream *stream, struct capture *capture, int type) {
    struct node *node = node_new(capture->graph, type);
    struct nodes set = {0};
    if (node && node_link_all(stream->capture_set, node) && nodes_add(&set, node)) {
        nodes_end(stream->capture_set);
        *stream->capture_set = set;
        return node;
    }
    if (node)
        node_delete(node);
    nodes_end(&set);
    return NULL;
}

CUresult capture_work(struct stream *stream, struct work *work, bool *captured) {
    static const int types[] = {[WORK_KERNEL] = NODE_KERNEL, [WORK_COPY] = NODE_MEMCPY, [WORK_SET] = NODE_MEMSET, [WORK_CALL] = NODE_HOST};
    struct capture *capture;
    CUresult result = capturing(stream, &capture);
    if (result || !capture)
        return result;
    struct node *node = append(stream, capture, types[work->kind]);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->ctx = stream->ctx;
    if (work->kind == WORK_COPY)
        work->copy.snapshot = false;    /* a graph reads its source at each launch */
    if (work->kind == WORK_KERNEL) {
        node->priority = stream->priority;
        node->cooperative = work->kernel.cooperative;
    }
    node->work = work;
    *captured = true;
    return CUDA_SUCCESS;
}

CUresult capture_graph(struct stream *stream, const struct graph *graph, bool *captured) {
    struct capture *capture;
    CUresult result = capturing(stream, &capture);
    if (result || !capture)
        return result;
    struct node *node = append(stream, capture, NODE_GRAPH);
    if (node)
        node->child = graph_copy(graph);
    if (!node || !node->child)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->child->owner = node;
    *captured = true;
    return CUDA_SUCCESS;
}

static CUresult event_node(struct stream *stream, struct capture *capture, struct event *event, int type) {
    struct node *node = append(stream, capture, type);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->event = event;
    node->event_id = event->handle.id;
    return CUDA_SUCCESS;
}

CUresult capture_record(struct stream *stream, struct event *event, bool external, bool *captured) {
    struct capture *capture;
    CUresult result = capturing(stream, &capture);
    if (result)
        return result;
    if (!capture)
        return external ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    *captured = true;
    if (external)
        return event_node(stream, capture, event, NODE_EVENT_RECORD);
    struct nodes *set = event->capture_set ? event->capture_set : calloc(1, sizeof *set);
    if (!set)
        return CUDA_ERROR_OUT_OF_MEMORY;
    set->count = 0;
    event->capture_set = set;
    event->capture_id = capture->id;
    for (uint32_t i = 0; i < stream->capture_set->count; i++)
        if (!nodes_add(set, stream->capture_set->list[i]))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

/* The stream takes part from here on. */
static bool join(struct stream *stream, struct capture *capture) {
    if (!stream->capture_set)
        stream->capture_set = calloc(1, sizeof *stream->capture_set);
    if (!stream->capture_set)
        return false;
    stream->capture_set->count = 0;
    stream->capture = capture;
    stream->next_captured = capture->streams;
    capture->streams = stream;
    return true;
}

CUresult capture_wait(struct stream *stream, struct event *event, bool external, bool *captured) {
    struct capture *own = NULL, *of_event = captures;
    if (captures_active && stream->capture) {
        own = stream->capture;
        if (own->status == CAPTURE_INVALIDATED)
            return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (external) {
        *captured = own != NULL;
        return own ? event_node(stream, own, event, NODE_WAIT_EVENT) : CUDA_ERROR_INVALID_VALUE;
    }
    while (of_event && of_event->id != event->capture_id)
        of_event = of_event->next;
    if (!of_event) {
        if (!own)
            return event->capture_id ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
        own->status = CAPTURE_INVALIDATED;      /* depends on work outside the graph */
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (own && own != of_event) {
        own->status = of_event->status = CAPTURE_INVALIDATED;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (of_event->status == CAPTURE_INVALIDATED)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->legacy) {
        of_event->status = CAPTURE_INVALIDATED;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!own && !join(stream, of_event))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *captured = true;
    for (uint32_t i = 0; i < event->capture_set->count; i++)
        if (!nodes_add(stream->capture_set, event->capture_set->list[i]))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

bool capture_begin(struct capture *capture) {
    if (!join(capture->origin, capture))
        return false;
    capture->next = captures;
    captures = capture;
    capture->graph->capturing = true;
    atomic_fetch_add(&captures_active, 1);
    return true;
}

static void push(struct node **stack, uint32_t *depth, const struct nodes *set) {
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->list[i]->index)
            continue;
        set->list[i]->index = 1;
        stack[(*depth)++] = set->list[i];
    }
}

/* Marks the nodes of a set and all that they depend on, by index 1. */
static void mark(const struct graph *graph, const struct nodes *set) {
    struct node **stack = malloc((graph->count + 1u) * sizeof *stack);
    uint32_t depth = 0;
    for (struct node *node = graph->first; node; node = node->next)
        node->index = !stack;           /* without memory all count as joined */
    if (stack)
        push(stack, &depth, set);
    while (depth) {
        const struct node *node = stack[--depth];
        push(stack, &depth, &node->from);
    }
    free(stack);
}

bool capture_end(struct capture *capture) {
    bool joined = true;
    mark(capture->graph, capture->origin->capture_set);
    while (capture->streams) {
        struct stream *stream = capture->streams;
        capture->streams = stream->next_captured;
        for (uint32_t i = 0; i < stream->capture_set->count; i++)
            joined = joined && stream->capture_set->list[i]->index;
        nodes_end(stream->capture_set);
        stream->capture = NULL;
    }
    struct capture **at = &captures;
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    capture->graph->capturing = false;
    atomic_fetch_sub(&captures_active, 1);
    return joined;
}

void capture_abandon(struct stream *stream) {
    pthread_mutex_lock(&sim.submit);
    struct capture *capture = stream->capture;
    if (capture && capture->origin == stream) {
        capture_end(capture);
        if (!capture->given)
            graph_delete(capture->graph);
        free(capture);
    } else if (capture) {
        struct stream **at = &capture->streams;
        while (*at != stream)
            at = &(*at)->next_captured;
        *at = stream->next_captured;
        capture->status = CAPTURE_INVALIDATED;
    }
    if (stream->capture_set)
        nodes_end(stream->capture_set);
    free(stream->capture_set);
    stream->capture_set = NULL;
    pthread_mutex_unlock(&sim.submit);
}
