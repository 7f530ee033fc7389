/* user_object.h: what graphs hold of the program's own objects; see user_object.c. */
#ifndef SIM_CUDA_USER_OBJECT_H
#define SIM_CUDA_USER_OBJECT_H

#include "capture.h"

struct user_object { struct handle handle; _Atomic unsigned references; void *data; CUhostFn destroy; };

/* References that a graph or an instance of one holds. */
struct keeping { struct keeping *next; void *object; unsigned count; };

bool user_object_retain(void *handle, unsigned count);          /* false: no such object */
bool user_object_release(void *handle, unsigned count);         /* ends it with its last reference; false: not so many */
bool keeping_add(struct keeping **list, void *object, unsigned count);  /* notes references that are held already */
bool keeping_copy(struct keeping **to, const struct keeping *from);     /* holds the same references once more */
void keeping_end(struct keeping **list);                        /* lets go of all */

#endif
