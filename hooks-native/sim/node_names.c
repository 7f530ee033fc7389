/* node_names.c: the kernels that the programs of the node have named, each name once. A name is forgotten with the last program that
 * uses it, so a node that lives long holds no more than its programs do; but for kernels of several durations, which go on where they
 * were in drawing from them. */
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "names.h"

static uint32_t *head_of(struct node *node, const char *plain)
{
    uint32_t hash = 2166136261u;
    for (; *plain; plain++)
        hash = (hash ^ (unsigned char)*plain) * 16777619u;
    return &node->name_heads[(hash ^ hash >> 16) % DEVICE_NAME_HEADS];
}

/* A place in the table that nobody uses, or −1. */
static int64_t new_place(struct node *node)
{
    uint32_t index = node->name_spare;
    if (index) {
        node->name_spare = node->names[index].next;
        return index;
    }
    if (node->name_count == node->name_room) {
        uint32_t room = node->name_room ? node->name_room * 2 : 64;
        struct name *names = realloc(node->names, room * sizeof *names);
        if (!names)
            return -1;
        node->names = names;
        node->name_room = room;
    }
    return node->name_count++;
}

int64_t node_name(struct node *node, const char *mangled)
{
    char plain[SIM_NAME];
    names_plain(mangled, plain, sizeof plain);
    uint32_t *head = head_of(node, plain);
    for (uint32_t i = *head; i; i = node->names[i].next)
        if (!strcmp(node->names[i].text, plain)) {
            node->names[i].users++;
            return i;
        }
    int64_t index = new_place(node);
    if (index < 0)
        return -1;
    struct name *name = &node->names[index];
    memcpy(name->text, plain, sizeof plain);
    name->kernel = profile_kernel(node->profile, plain);
    name->launches = 0;
    name->users = 1;
    name->next = 0;
    if (index) {                        /* 0 is found by nobody: it ends lists */
        name->next = *head;
        *head = (uint32_t)index;
    }
    return index;
}

void node_name_drop(struct node *node, uint32_t index)
{
    struct name *name = &node->names[index];
    if (--name->users || !index || (name->launches && name->kernel && name->kernel->count > 1))
        return;
    uint32_t *at = head_of(node, name->text);
    while (*at != index)
        at = &node->names[*at].next;
    *at = name->next;
    name->next = node->name_spare;
    node->name_spare = index;
}
