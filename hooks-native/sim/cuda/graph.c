/* graph.c: graphs as a whole: making, copying, listing, ending. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "user_object.h"

struct graph *graph_new(void) {
    struct graph *graph = handle_new(H_GRAPH);
    if (graph)
        graph->last = &graph->first;
    return graph;
}

void graph_delete(struct graph *graph) {
    while (graph->first)
        node_delete(graph->first);
    keeping_end(&graph->keeping);
    handle_free(graph);
}

struct graph *graph_copy(const struct graph *graph) {
    struct graph *copy = graph_new();
    struct node **made = copy ? calloc(graph->count + 1u, sizeof *made) : NULL;
    bool good = made != NULL;
    uint32_t count = 0;
    for (struct node *node = graph->first; node && good; node = node->next) {
        node->index = count;
        struct node *twin = made[count++] = node_new(copy, node->type);
        good = twin && node_take(twin, node);
        if (!good)
            break;
        twin->origin = node->handle.id;
        if (node->child) {
            twin->child = graph_copy(node->child);
            good = twin->child != NULL;
            if (good)
                twin->child->owner = twin;
        }
    }
    /* Edges last: a node may wait for one that was made later. */
    for (const struct node *node = graph->first; node && good; node = node->next)
        for (uint32_t i = 0; i < node->from.count && good; i++)
            good = node_link(made[node->from.list[i]->index], made[node->index]);
    free(made);
    if (good && keeping_copy(&copy->keeping, graph->keeping))
        return copy;
    if (copy)
        graph_delete(copy);
    return NULL;
}

CUresult graph_of(CUgraph handle, struct graph **out) {
    CUresult result = sim_ready();
    *out = (struct graph *)handle;
    return result ? result : handle_ok(H_GRAPH, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult node_of(CUgraphNode handle, struct node **out) {
    CUresult result = sim_ready();
    *out = (struct node *)handle;
    return result ? result : handle_ok(H_NODE, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult graph_list(const struct graph *graph, const CUgraphNode *list, size_t count, struct nodes *out) {
    *out = (struct nodes){0};
    CUresult result = count && !list ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (size_t i = 0; i < count && !result; i++) {
        struct node *node = (struct node *)list[i];
        if (!handle_ok(H_NODE, node) || node->graph != graph || nodes_have(out, node))
            result = CUDA_ERROR_INVALID_VALUE;
        else if (!nodes_add(out, node))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result)
        nodes_end(out);
    return result;
}

struct node *graph_copy_of(const struct graph *copy, uint64_t origin, bool within) {
    for (struct node *node = copy->first; node; node = node->next) {
        if (node->origin == origin)
            return node;
        struct node *found = within && node->child ? graph_copy_of(node->child, origin, true) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

ENTRY(cuGraphCreate, CUgraph *out, unsigned flags) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraph)graph_new();
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

ENTRY(cuGraphDestroy, CUgraph handle) {
    struct graph *graph;
    CUresult result = graph_of(handle, &graph);
    if (result)
        return result;
    if (graph->owner || graph->capturing)
        return CUDA_ERROR_INVALID_VALUE;        /* its node's, or its stream's */
    graph_delete(graph);
    return CUDA_SUCCESS;
}

ENTRY(cuGraphClone, CUgraph *out, CUgraph handle) {
    struct graph *graph;
    CUresult result = graph_of(handle, &graph);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraph)graph_copy(graph);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

ENTRY(cuGraphNodeFindInClone, CUgraphNode *out, CUgraphNode handle, CUgraph clone_handle) {
    struct graph *clone;
    struct node *node;
    CUresult result = graph_of(clone_handle, &clone);
    if (!result)
        result = node_of(handle, &node);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraphNode)graph_copy_of(clone, node->handle.id, false);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Answers a list of handles as the API wants it: the number alone, or as many as there is room for and NULL for the rest. */
static void give(CUgraphNode *to, size_t *room, struct node *const *list, size_t count) {
    for (size_t i = 0; to && i < *room; i++)
        to[i] = i < count ? (CUgraphNode)list[i] : NULL;
    if (!to || *room > count)
        *room = count;
}

static CUresult nodes_of(CUgraph handle, CUgraphNode *nodes, size_t *room, bool roots) {
    struct graph *graph;
    CUresult result = graph_of(handle, &graph);
    if (result)
        return result;
    if (!room)
        return CUDA_ERROR_INVALID_VALUE;
    struct node **list = malloc((graph->count + 1u) * sizeof *list);
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t count = 0;
    for (struct node *node = graph->first; node; node = node->next)
        if (!roots || !node->from.count)
            list[count++] = node;
    give(nodes, room, list, count);
    free(list);
    return CUDA_SUCCESS;
}

ENTRY(cuGraphGetNodes, CUgraph graph, CUgraphNode *nodes, size_t *count) { return nodes_of(graph, nodes, count, false); }
ENTRY(cuGraphGetRootNodes, CUgraph graph, CUgraphNode *nodes, size_t *count) { return nodes_of(graph, nodes, count, true); }

/* Edges here have no data: the ports and types by which kernels overlap their successors are not simulated. */
static CUresult neighbours(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *data, size_t *room, bool from) {
    struct node *node;
    CUresult result = node_of(handle, &node);
    if (result)
        return result;
    if (!room || (data && !nodes))
        return CUDA_ERROR_INVALID_VALUE;
    const struct nodes *set = from ? &node->from : &node->to;
    if (data)
        memset(data, 0, *room * sizeof *data);
    give(nodes, room, set->list, set->count);
    return CUDA_SUCCESS;
}

ENTRY(cuGraphNodeGetDependencies, CUgraphNode node, CUgraphNode *list, size_t *count) { return neighbours(node, list, NULL, count, true); }
ENTRY(cuGraphNodeGetDependencies_v2, CUgraphNode node, CUgraphNode *list, CUgraphEdgeData *data, size_t *count) {
    return neighbours(node, list, data, count, true);
}
ENTRY(cuGraphNodeGetDependentNodes, CUgraphNode node, CUgraphNode *list, size_t *count) { return neighbours(node, list, NULL, count, false); }
ENTRY(cuGraphNodeGetDependentNodes_v2, CUgraphNode node, CUgraphNode *list, CUgraphEdgeData *data, size_t *count) {
    return neighbours(node, list, data, count, false);
}

ENTRY(cuGraphNodeGetType, CUgraphNode handle, int *type) {
    struct node *node;
    CUresult result = node_of(handle, &node);
    if (result)
        return result;
    if (!type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

ENTRY(cuGraphDestroyNode, CUgraphNode handle) {
    struct node *node;
    CUresult result = node_of(handle, &node);
    if (result)
        return result;
    if (node->graph->capturing)
        return CUDA_ERROR_INVALID_VALUE;
    node_delete(node);
    return CUDA_SUCCESS;
}
