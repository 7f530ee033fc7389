/* graph_edges.c: dependencies between the nodes of a graph: adding, removing, listing. */
#include <string.h>

#include "graph.h"
#include "missing.h"

/* Edges that let a kernel begin before the other has ended are not simulated. */
CUresult edges_plain(const CUgraphEdgeData *data, size_t count) {
    static const CUgraphEdgeData none;
    for (size_t i = 0; data && i < count; i++) {
        if (memcmp(&data[i], &none, sizeof none))
            return MISSING(GRAPH_EDGES);
    }
    return CUDA_SUCCESS;
}

/* All pairs are of the graph, no node with itself, and each edge is there (or not, if `there` is false), and only once in the list. */
static CUresult check(const struct graph *graph, const CUgraphNode *from, const CUgraphNode *to, size_t count, bool there) {
    if (count && (!from || !to))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        const struct node *a = (struct node *)from[i], *b = (struct node *)to[i];
        if (!handle_ok(H_NODE, a) || !handle_ok(H_NODE, b) || a->graph != graph || b->graph != graph || a == b || nodes_have(&b->from, a) != there)
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t j = 0; j < i; j++)
            if (from[j] == from[i] && to[j] == to[i])
                return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult add(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data, size_t count) {
    struct graph *graph;
    CUresult result = graph_of(handle, &graph);
    if (!result)
        result = edges_plain(data, count);
    if (!result)
        result = check(graph, from, to, count, false);
    for (size_t i = 0; i < count && !result; i++)
        if (!node_link((struct node *)from[i], (struct node *)to[i]))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    return result;
}

static CUresult take_off(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data, size_t count) {
    struct graph *graph;
    CUresult result = graph_of(handle, &graph);
    if (!result)
        result = edges_plain(data, count);
    if (!result)
        result = check(graph, from, to, count, true);
    for (size_t i = 0; i < count && !result; i++) {
        nodes_remove(&((struct node *)to[i])->from, (struct node *)from[i]);
        nodes_remove(&((struct node *)from[i])->to, (struct node *)to[i]);
    }
    return result;
}

ENTRY(cuGraphAddDependencies, CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
    return add(graph, from, to, NULL, count);
}
ENTRY(cuGraphAddDependencies_v2, CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data, size_t count) {
    return add(graph, from, to, data, count);
}
ENTRY(cuGraphRemoveDependencies, CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
    return take_off(graph, from, to, NULL, count);
}
ENTRY(cuGraphRemoveDependencies_v2, CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data, size_t count) {
    return take_off(graph, from, to, data, count);
}

static CUresult edges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count) {
    struct graph *graph;
    CUresult result = graph_of(handle, &graph);
    if (result)
        return result;
    if (!count || !from != !to || (data && !from))
        return CUDA_ERROR_INVALID_VALUE;
    size_t room = from ? *count : 0, found = 0;
    for (const struct node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->from.count; i++, found++) {
            if (found >= room)
                continue;
            from[found] = (CUgraphNode)node->from.list[i];
            to[found] = (CUgraphNode)node;
            if (data)
                memset(&data[found], 0, sizeof *data);
        }
    for (size_t rest = found; rest < room; rest++)
        from[rest] = to[rest] = NULL;
    if (!from || *count > found)
        *count = found;
    return CUDA_SUCCESS;
}

ENTRY(cuGraphGetEdges, CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) { return edges(graph, from, to, NULL, count); }
ENTRY(cuGraphGetEdges_v2, CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count) {
    return edges(graph, from, to, data, count);
}
