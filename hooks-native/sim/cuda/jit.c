/* jit.c: the log buffers that callers of the just-in-time compiler pass as options. */
#include <stdio.h>
#include <string.h>

#include "image.h"

void jit_open(struct jit *jit, unsigned count, const int *options, void **values) {
    *jit = (struct jit){0};
    for (unsigned i = 0; i < count && options && values; i++) {
        switch (options[i]) {
        case CU_JIT_INFO_LOG_BUFFER: jit->info = values[i]; break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: jit->info_room = (unsigned)(uintptr_t)values[i]; jit->info_value = &values[i]; break;
        case CU_JIT_ERROR_LOG_BUFFER: jit->error = values[i]; break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: jit->error_room = (unsigned)(uintptr_t)values[i]; jit->error_value = &values[i]; break;
        case CU_JIT_WALL_TIME: {
            float none = 0;
            memcpy(&values[i], &none, sizeof none);
            break;
        }
        default: break;                 /* optimisation, targets, caching: nothing to do here */
        }
    }
    if (jit->info && jit->info_room)
        jit->info[0] = 0;
    if (jit->error && jit->error_room)
        jit->error[0] = 0;
    if (jit->info_value)
        *jit->info_value = NULL;
    if (jit->error_value)
        *jit->error_value = NULL;
}

/* Appends a line to a buffer of the caller, cut where it ends, and tells how much is in it. */
static void append(char *buffer, size_t room, size_t *used, void **value, const char *text) {
    if (!buffer || !room || *used + 1 >= room)
        return;
    int wrote = snprintf(buffer + *used, room - *used, "%s%s", *used ? "\n" : "", text);
    *used = wrote < 0 ? *used : *used + (size_t)wrote < room ? *used + (size_t)wrote : room - 1;
    if (value)
        *value = (void *)(uintptr_t)(*used + 1);
}

void jit_error(struct jit *jit, const char *text) { append(jit->error, jit->error_room, &jit->error_used, jit->error_value, text); }
void jit_info(struct jit *jit, const char *text) { append(jit->info, jit->info_room, &jit->info_used, jit->info_value, text); }
