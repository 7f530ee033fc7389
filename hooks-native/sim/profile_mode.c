/* profile_mode.c: how contexts share a device: "timeslice" (the default), "mps", or "mig:" and a list of instances, "mig:3g,3g". */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "profile.h"

#define COMPUTE_SLICES 7u
#define MEMORY_SLICES PROFILE_MEMORY_SLICES

/* Memory slices of an instance with so many compute slices; 0: there is no such instance. */
static uint32_t memory_slices(uint32_t compute)
{
    static const uint8_t of[] = { [1] = 1, [2] = 2, [3] = 4, [4] = 4, [7] = 8 };
    return compute < sizeof of ? of[compute] : 0;
}

__attribute__((format(printf, 3, 4))) static bool fail(char *error, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, size, format, args);
    va_end(args);
    return false;
}

/* "3g" or "3g.20gb" at `text`: adds the instance. */
static bool take_instance(struct profile *p, const char *text, size_t length, char *error, size_t size)
{
    uint32_t compute = length > 1 && text[1] == 'g' ? (uint32_t)(text[0] - '0') : 0, memory = memory_slices(compute);
    char name[PROFILE_INSTANCE_NAME];
    if (!memory || !p->mig_sms[compute])
        return fail(error, size, "there is no MIG instance %.*s; instances are 1g, 2g, 3g, 4g, 7g, for which the profile gives mig.sm_1g and so on",
                    (int)length, text);
    profile_instance_name(p, compute, name);
    if (length != 2 && (strlen(name) != length || strncmp(name, text, length)))
        return fail(error, size, "the MIG instance of %u slices is called %s on this device, not %.*s", compute, name, (int)length, text);
    uint32_t compute_sum = compute, memory_sum = memory;
    for (uint32_t i = 0; i < p->instance_count; i++) {
        compute_sum += p->instances[i];
        memory_sum += memory_slices(p->instances[i]);
    }
    if (compute_sum > COMPUTE_SLICES || memory_sum > MEMORY_SLICES)
        return fail(error, size, "the instances need %u compute and %u memory slices, and a device has %u and %u", compute_sum, memory_sum,
                    COMPUTE_SLICES, MEMORY_SLICES);
    p->instances[p->instance_count++] = (uint8_t)compute;
    return true;
}

void profile_instance_name(const struct profile *p, uint32_t compute, char out[PROFILE_INSTANCE_NAME])
{
    double all = p->mig_memory_gb > 0 ? p->mig_memory_gb : (double)p->info.total_bytes / (1 << 30);
    unsigned gb = (unsigned)(all * memory_slices(compute) / MEMORY_SLICES + 0.5);
    snprintf(out, PROFILE_INSTANCE_NAME, "%ug.%ugb", compute, gb ? gb : 1);
}

bool profile_mode(struct profile *p, const char *text, char *error, size_t size)
{
    p->merged = !strcmp(text, "mps");
    p->instance_count = 0;
    if (p->merged || !strcmp(text, "timeslice")) {
        snprintf(p->mode, sizeof p->mode, "%s", text);
        return true;
    }
    if (strncmp(text, "mig:", 4) || !text[4])
        return fail(error, size, "must be timeslice, mps, or mig: and a list of instances such as mig:3g,3g, not: %.80s", text);
    for (const char *at = text + 4;; at++) {
        size_t length = strcspn(at, ",");
        if (!take_instance(p, at, length, error, size))
            return false;
        at += length;
        if (!*at)
            break;
    }
    size_t n = (size_t)snprintf(p->mode, sizeof p->mode, "mig:");
    for (uint32_t i = 0; i < p->instance_count; i++)
        n += (size_t)snprintf(p->mode + n, sizeof p->mode - n, "%s%ug", i ? "," : "", p->instances[i]);
    return true;
}

void profile_unit(const struct profile *p, uint32_t index, struct sim_device_info *info, struct sched_profile *timing)
{
    *info = p->info;
    *timing = p->timing;
    timing->merged = p->merged;
    info->parent = p->instance_count ? index / p->instance_count : index;
    if (!p->instance_count)
        return;
    info->mig_index = index % p->instance_count;
    info->mig_slices = p->instances[info->mig_index];
    profile_instance_name(p, info->mig_slices, info->mig_name);
    uint32_t memory = memory_slices(info->mig_slices);
    snprintf(info->name, sizeof info->name, "%.58s MIG %s", p->info.name, info->mig_name);
    info->total_bytes = (p->info.total_bytes / MEMORY_SLICES * memory) & ~0x1fffffull;
    info->reserved_bytes = p->info.reserved_bytes / MEMORY_SLICES * memory;
    info->l2_bytes = p->info.l2_bytes / MEMORY_SLICES * memory;
    info->sm_count = timing->sm_count = p->mig_sms[info->mig_slices];
    timing->whole_sm_count = p->info.sm_count;
    timing->h2d_bytes_per_us = p->timing.h2d_bytes_per_us * info->mig_slices / COMPUTE_SLICES;
    timing->d2h_bytes_per_us = p->timing.d2h_bytes_per_us * info->mig_slices / COMPUTE_SLICES;
    timing->memory_bytes_per_us = p->timing.memory_bytes_per_us * memory / MEMORY_SLICES;
    timing->h2d_bytes_per_us += !timing->h2d_bytes_per_us;
    timing->d2h_bytes_per_us += !timing->d2h_bytes_per_us;
    timing->memory_bytes_per_us += !timing->memory_bytes_per_us;
}
