/* visible.c: which devices of the node this process sees: CUDA_VISIBLE_DEVICES. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim.h"
#include "visible.h"

/* "GPU-58050d4b-b5cb-…", as the driver's tools print it. */
static void print_uuid(const uint8_t uuid[16], char out[41])
{
    static const char dash_before[16] = { [4] = 1, [6] = 1, [8] = 1, [10] = 1 };
    char *at = out + sprintf(out, "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, dash_before[i] ? "-%02x" : "%02x", uuid[i]);
}

/* The device an entry names: a number, or the beginning of exactly one UUID. -1: none. */
static int named(const char *entry, size_t length)
{
    int count = (int)sim_device_count(sim.link), found = -1;
    char *end;
    long number = strtol(entry, &end, 10);
    if (length && end == entry + length)
        return number >= 0 && number < count ? (int)number : -1;
    for (int i = 0; i < count && length > 4; i++) {
        char uuid[41];
        print_uuid(sim_device(sim.link, (uint32_t)i)->uuid, uuid);
        if (!strncasecmp(entry, uuid, length)) {
            if (found >= 0)
                return -1;
            found = i;
        }
    }
    return found;
}

int visible_devices(const char *list, uint32_t visible[SIM_MAX_DEVICES])
{
    int count = 0, all = (int)sim_device_count(sim.link);
    if (!list) {
        for (; count < all; count++)
            visible[count] = (uint32_t)count;
        return count;
    }
    while (count < all) {
        list += strspn(list, " ");
        size_t length = strcspn(list, ", ");
        int device = named(list, length);
        if (device < 0)
            break;
        for (int i = 0; i < count; i++)
            if (visible[i] == (uint32_t)device)
                return 0;
        visible[count++] = (uint32_t)device;
        list += length + strspn(list + length, " ");
        if (*list++ != ',')
            break;
    }
    return count;
}
