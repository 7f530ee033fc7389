/* graph.h: graphs: nodes with dependencies, and instances of graphs with the plan by which they are replayed.
 * Graphs are not for several threads at once, as the documentation says of the real ones; instances are launched under the submit lock. */
#ifndef SIM_CUDA_GRAPH_H
#define SIM_CUDA_GRAPH_H

#include "api_graph.h"
#include "work.h"

#define NODE_ATTRIBUTES 17              /* CUlaunchAttributeID of a kernel node; those that are set are kept and answered */

/* A set of nodes, in the order in which they were added. */
struct nodes { struct node **list; uint32_t count, room; };

struct node {
    struct handle handle;
    struct graph *graph;
    struct node *next, **link;      /* graph->first */
    int type;                       /* CUgraphNodeType */
    bool disabled;                  /* of an instance: does nothing */
    struct nodes from, to;          /* what it waits for, what waits for it */
    uint64_t origin;                /* id of the node that it is a copy of; 0: of none */
    struct work *work;              /* KERNEL, MEMCPY, MEMSET, HOST */
    struct graph *child;            /* GRAPH */
    struct event *event;            /* EVENT_RECORD, WAIT_EVENT */
    uint64_t event_id;              /* its handle's id: it may have been destroyed */
    int priority;                   /* KERNEL */
    bool cooperative;
    CUDA_MEMCPY3D *copy;            /* MEMCPY: as given; NULL: captured */
    void **params;                  /* KERNEL: what GetParams has handed out; made at first use */
    char (*attributes)[64];         /* KERNEL: NODE_ATTRIBUTES of them, or NULL */
    uint32_t attributes_set;        /* bit n: attribute n */
    uint32_t index;                 /* scratch of whoever walks the graph */
};

struct graph {
    struct handle handle;
    struct node *first, **last;
    uint32_t count;
    struct node *owner;             /* the node that it is in */
    bool capturing;                 /* nodes come in by a capture: no instance until it ends */
    struct keeping *keeping;        /* user_object.h */
};

/* A place where steps run one after another: a stream of our own, or (the first) the one that the instance is launched into. */
#define LANE_OF_STREAM INT32_MIN        /* priority of a lane: that of the stream that the instance is launched into */
struct lane { struct ctx *ctx; int priority; struct stream *stream; uint64_t stream_id; uint32_t mark; uint64_t mark_ticket; };
/* What is done for a node at a launch. Steps that it waits for in other lanes are waits[first_wait …]. `root`: begins a lane and waits
 * for none; `leaf`: ends a lane. `ticket`: of its mark, of the newest launch. */
struct step { struct node *node; uint32_t lane, first_wait, wait_count; bool mark, root, leaf; uint64_t ticket; };

struct exec {
    struct handle handle;
    struct graph *graph;            /* a copy of its own */
    cuuint64_t flags;
    struct step *steps;             /* in an order that satisfies all dependencies */
    uint32_t step_count, wait_count, lane_count;
    uint32_t *waits;
    struct lane *lanes;
    struct ctx *ctx;                /* that its end mark is of */
    uint32_t mark, queue;           /* recorded at the end of each launch; in which queue last */
    uint64_t ticket;
};

/* graph_nodes.c */
bool nodes_add(struct nodes *set, struct node *node);           /* once; false: no memory */
bool nodes_have(const struct nodes *set, const struct node *node);
void nodes_remove(struct nodes *set, const struct node *node);
void nodes_end(struct nodes *set);
struct node *node_new(struct graph *graph, int type);           /* appended; NULL: no memory */
void node_delete(struct node *node);                            /* with its edges */
bool node_link(struct node *from, struct node *to);             /* `to` waits for `from`; false: no memory */
bool node_link_all(const struct nodes *from, struct node *to);
struct ctx *node_ctx(const struct node *node);                  /* the context it runs in; NULL: it does nothing */

/* graph.c */
struct graph *graph_new(void);
void graph_delete(struct graph *graph);
struct graph *graph_copy(const struct graph *graph);            /* NULL: no memory */
CUresult graph_of(CUgraph handle, struct graph **out);
CUresult node_of(CUgraphNode handle, struct node **out);
/* All nodes of a list, each once and of this graph; else INVALID_VALUE. */
CUresult graph_list(const struct graph *graph, const CUgraphNode *list, size_t count, struct nodes *out);
/* The node of a copied graph, or of the graphs in it, that is the copy of the node with this id. */
struct node *graph_copy_of(const struct graph *copy, uint64_t origin, bool within);

/* graph_params.c: what a node does, from the parameters that the API gives. `node` gets its work; else nothing changes. */
CUresult node_set_kernel(struct node *node, const CUDA_KERNEL_NODE_PARAMS *params, bool v2);
CUresult node_set_memcpy(struct node *node, const CUDA_MEMCPY3D *params, CUcontext ctx);
CUresult node_set_memset(struct node *node, const CUDA_MEMSET_NODE_PARAMS_v2 *params, CUcontext ctx);
CUresult node_set_host(struct node *node, const CUDA_HOST_NODE_PARAMS *params);
CUresult node_set_event(struct node *node, CUevent event);
CUresult node_set(struct node *node, const CUgraphNodeParams *params);
/* Gives `node` what `from` does; both are of one type. False: no memory. */
bool node_take(struct node *node, const struct node *from);

/* graph_edges.c: NOT_SUPPORTED if one of them is more than "after the end of the other node". `data` may be NULL. */
CUresult edges_plain(const CUgraphEdgeData *data, size_t count);

/* graph_plan.c: steps and lanes of an instance. INVALID_VALUE: there is a circle; `bad` is a node of it. */
CUresult plan_make(struct exec *exec, struct node **bad);
void plan_end(struct exec *exec);

/* graph_launch.c */
void exec_delete(struct exec *exec);

/* graph_update.c: may a node of an instance become what `made` is? UPDATED, or why not. */
int node_change(const struct node *own, const struct node *made, cuuint64_t flags);
/* Makes the nodes of a copy do what those of `from` do. UPDATED, or why not; then nothing has changed. */
int graph_update(struct graph *copy, const struct graph *from, cuuint64_t flags, struct node **bad, struct node **bad_from);

#endif
