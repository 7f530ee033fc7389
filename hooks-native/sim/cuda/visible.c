/* visible.c: which devices of the node this process sees: CUDA_VISIBLE_DEVICES. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim.h"
#include "visible.h"

/* "GPU-58050d4b-b5cb-…" or "MIG-…", as the driver's tools print it. */
static void print_uuid(const struct sim_device_info *info, char out[41])
{
    static const char dash_before[16] = { [4] = 1, [6] = 1, [8] = 1, [10] = 1 };
    char *at = out + sprintf(out, info->mig_slices ? "MIG-" : "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, dash_before[i] ? "-%02x" : "%02x", info->uuid[i]);
}

/* The first device that a whole one is divided into, or itself. */
static int first_of(uint32_t whole)
{
    uint32_t i = 0;
    while (i < sim_device_count(sim.link) && sim_device(sim.link, i)->parent != whole)
        i++;
    return i < sim_device_count(sim.link) ? (int)i : -1;
}

/* The one whose UUID begins like this, of the devices that programs run on and of whole ones that are divided. -1: none, or several. */
static int by_uuid(const char *entry, size_t length)
{
    char uuid[41];
    int found = -1, matches = 0;
    for (uint32_t i = 0; i < sim_device_count(sim.link); i++) {
        print_uuid(sim_device(sim.link, i), uuid);
        if (!strncasecmp(entry, uuid, length)) {
            found = (int)i;
            matches++;
        }
    }
    for (uint32_t i = 0; i < sim_whole_count(sim.link); i++) {
        int first = first_of(i);
        print_uuid(sim_whole(sim.link, i), uuid);
        if (first < 0 || !sim_device(sim.link, (uint32_t)first)->mig_slices || strncasecmp(entry, uuid, length))
            continue;
        found = first;
        matches++;
    }
    return matches == 1 ? found : -1;
}

/* The device an entry names: a number, or the beginning of exactly one UUID. -1: none. */
static int named(const char *entry, size_t length)
{
    char *end;
    long number = strtol(entry, &end, 10);
    if (length && end == entry + length)
        return number >= 0 && number < (long)sim_device_count(sim.link) ? (int)number : -1;
    return length > 4 ? by_uuid(entry, length) : -1;
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
