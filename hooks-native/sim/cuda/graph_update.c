/* graph_update.c: what may change in an instance of a graph, and taking over all that has changed from another graph.
 *
 * The nodes of the two are paired from the end: the nodes that nothing waits for in the order in which they were made, then, of
 * each pair, what both wait for in the order of their edges. That is what the documentation asks programs to keep in order. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "where.h"

static bool same_device(const void *a, const void *b) {
    struct device *of_a = NULL, *of_b = NULL;
    where_device(a, &of_a);
    where_device(b, &of_b);
    return of_a == of_b;
}

static int change_copy(const struct node *own, const struct node *made) {
    const struct copy_work *a = &own->work->copy, *b = &made->work->copy;
    if (own->copy && made->copy && (own->copy->srcMemoryType != made->copy->srcMemoryType || own->copy->dstMemoryType != made->copy->dstMemoryType))
        return UPDATE_PARAMETERS;
    if (!same_device(a->dst, b->dst) || !same_device(a->src, b->src) || own->work->command.kind != made->work->command.kind)
        return UPDATE_PARAMETERS;
    bool plain = a->height == 1 && a->depth == 1 && b->height == 1 && b->depth == 1;
    bool same = a->width == b->width && a->height == b->height && a->depth == b->depth;
    return plain || same ? UPDATED : UPDATE_PARAMETERS;
}

static int change_set(const struct node *own, const struct node *made) {
    const struct set_work *a = &own->work->set, *b = &made->work->set;
    if (!same_device(a->dst, b->dst) || a->height != b->height)
        return UPDATE_PARAMETERS;
    return a->height == 1 || (a->width == b->width && a->pitch == b->pitch && a->size == b->size) ? UPDATED : UPDATE_PARAMETERS;
}

int node_change(const struct node *own, const struct node *made, cuuint64_t flags) {
    if (own->type != made->type)
        return UPDATE_NODE_TYPE;
    if (own->type != NODE_HOST && own->work && own->work->ctx != made->work->ctx)
        return own->type == NODE_KERNEL ? UPDATE_UNSUPPORTED_FUNCTION : UPDATE_PARAMETERS;
    switch (own->type) {
    case NODE_KERNEL:
        return own->cooperative != made->cooperative || (flags & INSTANTIATE_NODE_PRIORITY && own->priority != made->priority) ? UPDATE_ATTRIBUTES : UPDATED;
    case NODE_MEMCPY: return change_copy(own, made);
    case NODE_MEMSET: return change_set(own, made);
    case NODE_EVENT_RECORD: case NODE_WAIT_EVENT: return own->event->ctx == made->event->ctx ? UPDATED : UPDATE_PARAMETERS;
    default: return UPDATED;
    }
}

struct pairing {
    struct node **twins;            /* of the graph's nodes, by index: the copy's */
    struct node **stack;
    uint32_t depth;
    struct node *bad, *bad_from;
};

/* Pairs two nodes, or finds them paired. */
static bool pair(struct pairing *p, struct node *twin, struct node *node) {
    if (p->twins[node->index])
        return p->twins[node->index] == twin;
    if (twin->index != UINT32_MAX)
        return false;                   /* taken by another one */
    p->twins[node->index] = twin;
    twin->index = node->index;
    p->stack[p->depth++] = node;
    return true;
}

static int pair_sinks(struct pairing *p, const struct graph *copy, const struct graph *from) {
    struct node *twin = copy->first;
    for (struct node *node = from->first; node; node = node->next) {
        if (node->to.count)
            continue;
        while (twin && twin->to.count)
            twin = twin->next;
        p->bad = node;
        if (!twin || !pair(p, twin, node))
            return UPDATE_TOPOLOGY;
        twin = twin->next;
    }
    while (twin && twin->to.count)
        twin = twin->next;
    p->bad = NULL;
    return twin ? UPDATE_TOPOLOGY : UPDATED;
}

static int pair_all(struct pairing *p, const struct graph *copy, const struct graph *from) {
    int result = pair_sinks(p, copy, from);
    while (!result && p->depth) {
        struct node *node = p->stack[--p->depth], *twin = p->twins[node->index];
        p->bad = node;
        if (node->from.count != twin->from.count)
            return UPDATE_TOPOLOGY;
        for (uint32_t i = 0; i < node->from.count; i++)
            if (!pair(p, twin->from.list[i], node->from.list[i])) {
                p->bad_from = node->from.list[i];
                return UPDATE_TOPOLOGY;
            }
    }
    return result;
}

/* All pairs, and those of the graphs within them: `take` false: may they change so; true: change. */
static int each_pair(struct graph *copy, const struct graph *from, cuuint64_t flags, bool take, struct node **bad, struct node **bad_from) {
    if (copy->count != from->count)
        return UPDATE_TOPOLOGY;
    struct pairing p = {calloc(from->count + 1u, sizeof *p.twins), calloc(from->count + 1u, sizeof *p.stack), 0, NULL, NULL};
    int result = p.twins && p.stack ? UPDATED : UPDATE_ERROR;
    uint32_t index = 0;
    for (struct node *node = from->first; node; node = node->next)
        node->index = index++;
    for (struct node *node = copy->first; node; node = node->next)
        node->index = UINT32_MAX;
    if (!result)
        result = pair_all(&p, copy, from);
    *bad = p.bad;
    *bad_from = p.bad_from;
    for (struct node *node = from->first; node && !result; node = node->next) {
        struct node *twin = p.twins[node->index];
        *bad = node;
        *bad_from = NULL;
        if (!twin)
            result = UPDATE_TOPOLOGY;   /* on a circle: reached from no end */
        else if (twin->child)
            result = node->child ? UPDATED : UPDATE_NODE_TYPE;
        else if (take)
            result = node_take(twin, node) ? UPDATED : UPDATE_ERROR;
        else
            result = node_change(twin, node, flags);
    }
    /* Last, since they number their own nodes. */
    for (struct node *node = from->first; node && !result; node = node->next)
        if (p.twins[node->index]->child)
            result = each_pair(p.twins[node->index]->child, node->child, flags, take, bad, bad_from);
    free(p.twins);
    free(p.stack);
    if (!result)
        *bad = NULL;
    return result;
}

int graph_update(struct graph *copy, const struct graph *from, cuuint64_t flags, struct node **bad, struct node **bad_from) {
    *bad = *bad_from = NULL;
    int result = each_pair(copy, from, flags, false, bad, bad_from);
    return result ? result : each_pair(copy, from, flags, true, bad, bad_from);
}

static CUresult update(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo *out) {
    struct exec *exec = (struct exec *)handle;
    struct graph *graph;
    struct node *bad, *bad_from;
    *out = (CUgraphExecUpdateResultInfo){.result = UPDATE_ERROR};
    CUresult result = graph_of(graph_handle, &graph);
    if (!result && !handle_ok(H_EXEC, exec))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    out->result = graph_update(exec->graph, graph, exec->flags, &bad, &bad_from);
    out->errorNode = (CUgraphNode)bad;
    out->errorFromNode = (CUgraphNode)bad_from;
    return out->result ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : CUDA_SUCCESS;
}

ENTRY(cuGraphExecUpdate, CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *found) {
    CUgraphExecUpdateResultInfo info;
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!node || !found)
        return CUDA_ERROR_INVALID_VALUE;
    result = update(exec, graph, &info);
    *node = info.errorNode;
    *found = info.result;
    return result;
}

ENTRY(cuGraphExecUpdate_v2, CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
    CUresult result = sim_ready();
    return result ? result : info ? update(exec, graph, info) : CUDA_ERROR_INVALID_VALUE;
}
