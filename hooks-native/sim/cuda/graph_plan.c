/* graph_plan.c: how an instance is replayed. Its nodes, and those of graphs within nodes, are put into an order that satisfies all
 * dependencies, and dealt out to lanes, so that what does not depend on one another runs side by side. Within a lane the order is
 * enough; a step waits for those of other lanes that it depends on. */
#include <stdlib.h>

#include "graph.h"

#define LANES 32u                       /* more only where contexts or priorities ask for them */

struct flat {
    struct node **nodes;                /* a graph within a node is there twice: its beginning and its end */
    uint32_t *begins;                   /* of an end: its beginning; else itself */
    uint32_t *first, *from;             /* what item i waits for: from[first[i]] … from[first[i + 1] - 1] */
    uint32_t count, edges;
};

static void measure(const struct graph *graph, uint32_t *items, uint32_t *edges) {
    for (const struct node *node = graph->first; node; node = node->next) {
        *items += 1;
        *edges += node->from.count + 1;
        if (!node->child)
            continue;
        *items += 1;
        *edges += node->child->count + 1;
        measure(node->child, items, edges);
    }
}

/* Numbers the items; node->index is the one that others wait for. */
static void number(struct flat *f, const struct graph *graph) {
    for (struct node *node = graph->first; node; node = node->next) {
        uint32_t begin = f->count;
        f->nodes[f->count++] = node;
        if (node->child) {
            number(f, node->child);
            f->nodes[f->count++] = node;
        }
        node->index = f->count - 1;
        f->begins[begin] = f->begins[node->index] = begin;
    }
}

static void edges_of(struct flat *f, uint32_t item) {
    const struct node *node = f->nodes[item];
    f->first[item] = f->edges;
    if (node->child && item != f->begins[item]) {
        for (const struct node *inner = node->child->first; inner; inner = inner->next)
            if (!inner->to.count)
                f->from[f->edges++] = inner->index;
        if (f->first[item] == f->edges)
            f->from[f->edges++] = f->begins[item];
        return;
    }
    for (uint32_t i = 0; i < node->from.count; i++)
        f->from[f->edges++] = node->from.list[i]->index;
    const struct node *owner = node->graph->owner;
    if (!node->from.count && owner)
        f->from[f->edges++] = f->begins[owner->index];
}

static bool flatten(struct flat *f, const struct graph *graph) {
    uint32_t items = 0, edges = 0;
    measure(graph, &items, &edges);
    *f = (struct flat){calloc(items + 1u, sizeof *f->nodes), calloc(items + 1u, sizeof *f->begins), calloc(items + 2u, sizeof *f->first),
                       calloc(edges + 1u, sizeof *f->from), 0, 0};
    if (!f->nodes || !f->begins || !f->first || !f->from)
        return false;
    number(f, graph);
    for (uint32_t i = 0; i < f->count; i++)
        edges_of(f, i);
    f->first[f->count] = f->edges;
    return true;
}

static void flat_end(struct flat *f) {
    free(f->nodes);
    free(f->begins);
    free(f->first);
    free(f->from);
}

/* An order that satisfies all dependencies: that in which the nodes were made, each after what it waits for. UINT32_MAX, or an item
 * that is on a circle. */
static uint32_t sort(const struct flat *f, uint32_t *order, uint32_t *place, uint32_t *stack, uint32_t *cursor) {
    enum { UNSEEN = UINT32_MAX, OPEN = UINT32_MAX - 1 };
    uint32_t done = 0;
    for (uint32_t i = 0; i < f->count; i++)
        place[i] = UNSEEN;
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t depth = 0;
        if (place[i] != UNSEEN)
            continue;
        stack[depth++] = i;
        cursor[i] = f->first[i];
        place[i] = OPEN;
        while (depth) {
            uint32_t item = stack[depth - 1];
            if (cursor[item] == f->first[item + 1]) {
                place[item] = done;
                order[done++] = item;
                depth--;
                continue;
            }
            uint32_t before = f->from[cursor[item]++];
            if (place[before] == OPEN)
                return before;
            if (place[before] != UNSEEN)
                continue;
            cursor[before] = f->first[before];
            place[before] = OPEN;
            stack[depth++] = before;
        }
    }
    return UINT32_MAX;
}

struct dealing {
    struct exec *exec;
    const struct flat *flat;
    uint32_t *order, *place;            /* items by place, and back */
    uint32_t *tails;                    /* last step of each lane */
    uint32_t *seen, *stack, stamp;      /* search for what a step depends on */
};

/* Does the step at `place` depend on the one at `wanted`, perhaps through others? */
static bool depends(struct dealing *d, uint32_t place, uint32_t wanted) {
    uint32_t depth = 0;
    d->stamp++;
    d->stack[depth++] = place;
    while (depth) {
        uint32_t item = d->order[d->stack[--depth]];
        for (uint32_t e = d->flat->first[item]; e < d->flat->first[item + 1]; e++) {
            uint32_t at = d->place[d->flat->from[e]];
            if (at == wanted)
                return true;
            if (at < wanted || d->seen[at] == d->stamp)
                continue;
            d->seen[at] = d->stamp;
            d->stack[depth++] = at;
        }
    }
    return false;
}

static bool fits(const struct lane *lane, const struct ctx *ctx, int priority) {
    return !ctx || (lane->ctx == ctx && lane->priority == priority);
}

/* The lane of a step: one that ends with something that it depends on, else a new one. */
static uint32_t choose(struct dealing *d, uint32_t place) {
    struct exec *exec = d->exec;
    uint32_t item = d->order[place], oldest = UINT32_MAX;
    const struct node *node = d->flat->nodes[item];
    struct ctx *ctx = node_ctx(node);
    int priority = exec->flags & INSTANTIATE_NODE_PRIORITY && node->type == NODE_KERNEL ? node->priority : LANE_OF_STREAM;
    for (uint32_t e = d->flat->first[item]; e < d->flat->first[item + 1]; e++) {
        uint32_t before = d->place[d->flat->from[e]], lane = exec->steps[before].lane;
        if (d->tails[lane] == before && fits(&exec->lanes[lane], ctx, priority))
            return lane;
    }
    for (uint32_t lane = 0; lane < exec->lane_count; lane++) {
        if (!fits(&exec->lanes[lane], ctx, priority))
            continue;
        if (depends(d, place, d->tails[lane]))
            return lane;
        oldest = oldest == UINT32_MAX || d->tails[lane] < d->tails[oldest] ? lane : oldest;
    }
    if (oldest != UINT32_MAX && exec->lane_count >= LANES)
        return oldest;
    exec->lanes[exec->lane_count] = (struct lane){.ctx = ctx ? ctx : exec->ctx, .priority = priority};
    return exec->lane_count++;
}

/* Steps of other lanes to wait for: of each lane the last one. */
static void wait_for(struct dealing *d, uint32_t place) {
    struct exec *exec = d->exec;
    struct step *step = &exec->steps[place];
    uint32_t item = d->order[place];
    step->first_wait = exec->wait_count;
    for (uint32_t e = d->flat->first[item]; e < d->flat->first[item + 1]; e++) {
        uint32_t before = d->place[d->flat->from[e]], at = step->first_wait;
        if (exec->steps[before].lane == step->lane)
            continue;
        while (at < exec->wait_count && exec->steps[exec->waits[at]].lane != exec->steps[before].lane)
            at++;
        if (at == exec->wait_count)
            exec->waits[exec->wait_count++] = before;
        else if (exec->waits[at] < before)
            exec->waits[at] = before;
    }
    step->wait_count = exec->wait_count - step->first_wait;
    for (uint32_t i = 0; i < step->wait_count; i++)
        exec->steps[exec->waits[step->first_wait + i]].mark = true;
}

static void deal(struct dealing *d) {
    struct exec *exec = d->exec;
    for (uint32_t place = 0; place < d->flat->count; place++) {
        uint32_t item = d->order[place], lanes = exec->lane_count;
        struct step *step = &exec->steps[place];
        bool begins = d->flat->begins[item] == item;
        step->node = d->flat->nodes[item]->child && !begins ? NULL : d->flat->nodes[item];
        step->lane = choose(d, place);
        wait_for(d, place);
        step->root = exec->lane_count > lanes && !step->wait_count;
        d->tails[step->lane] = place;
    }
    for (uint32_t lane = 0; lane < exec->lane_count; lane++)
        exec->steps[d->tails[lane]].leaf = exec->steps[d->tails[lane]].mark = true;
}

void plan_end(struct exec *exec) {
    free(exec->steps);
    free(exec->waits);
    free(exec->lanes);
}

/* The context that what has none of its own runs in. */
static struct ctx *any_ctx(const struct flat *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (node_ctx(f->nodes[i]))
            return node_ctx(f->nodes[i]);
    return NULL;
}

CUresult plan_make(struct exec *exec, struct node **bad) {
    struct flat flat;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    bool good = flatten(&flat, exec->graph);
    uint32_t *scratch = good ? calloc(5 * (flat.count + 1u), sizeof *scratch) : NULL, n = flat.count + 1;
    exec->steps = calloc(n, sizeof *exec->steps);
    exec->waits = calloc(flat.edges + 1u, sizeof *exec->waits);
    exec->lanes = calloc(n, sizeof *exec->lanes);
    if (scratch && exec->steps && exec->waits && exec->lanes) {
        struct dealing d = {exec, &flat, scratch, scratch + n, scratch + 2 * n, scratch + 3 * n, scratch + 4 * n, 0};
        uint32_t circle = sort(&flat, d.order, d.place, d.stack, d.seen);
        result = circle == UINT32_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        if (result) {
            *bad = flat.nodes[circle];
        } else {
            exec->ctx = any_ctx(&flat);
            exec->step_count = flat.count;
            for (uint32_t i = 0; i < n; i++)
                d.seen[i] = 0;
            deal(&d);
        }
    }
    free(scratch);
    flat_end(&flat);
    return result;
}
