/* graph_nodes.c: nodes of graphs and the dependencies between them. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

bool nodes_have(const struct nodes *set, const struct node *node) {
    for (uint32_t i = 0; i < set->count; i++)
        if (set->list[i] == node)
            return true;
    return false;
}

bool nodes_add(struct nodes *set, struct node *node) {
    if (nodes_have(set, node))
        return true;
    if (set->count == set->room) {
        uint32_t room = set->room ? set->room * 2 : 4;
        struct node **list = realloc(set->list, room * sizeof *list);
        if (!list)
            return false;
        set->list = list;
        set->room = room;
    }
    set->list[set->count++] = node;
    return true;
}

void nodes_remove(struct nodes *set, const struct node *node) {
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->list[i] != node)
            continue;
        memmove(set->list + i, set->list + i + 1, (--set->count - i) * sizeof *set->list);
        return;
    }
}

void nodes_end(struct nodes *set) {
    free(set->list);
    *set = (struct nodes){0};
}

struct node *node_new(struct graph *graph, int type) {
    struct node *node = handle_new(H_NODE);
    if (!node)
        return NULL;
    node->graph = graph;
    node->type = type;
    node->link = graph->last;
    *graph->last = node;
    graph->last = &node->next;
    graph->count++;
    return node;
}

void node_delete(struct node *node) {
    for (uint32_t i = 0; i < node->from.count; i++)
        nodes_remove(&node->from.list[i]->to, node);
    for (uint32_t i = 0; i < node->to.count; i++)
        nodes_remove(&node->to.list[i]->from, node);
    nodes_end(&node->from);
    nodes_end(&node->to);
    *node->link = node->next;
    if (node->next)
        node->next->link = node->link;
    else
        node->graph->last = node->link;
    node->graph->count--;
    work_free(node->work);
    if (node->child)
        graph_delete(node->child);
    free(node->copy);
    free(node->params);
    free(node->attributes);
    handle_free(node);
}

bool node_link(struct node *from, struct node *to) {
    if (!nodes_add(&to->from, from))
        return false;
    if (nodes_add(&from->to, to))
        return true;
    nodes_remove(&to->from, from);
    return false;
}

bool node_link_all(const struct nodes *from, struct node *to) {
    for (uint32_t i = 0; i < from->count; i++)
        if (!node_link(from->list[i], to))
            return false;
    return true;
}

struct ctx *node_ctx(const struct node *node) { return node->work ? node->work->ctx : node->event ? node->event->ctx : NULL; }
