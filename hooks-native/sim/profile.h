/* profile.h: a device profile, read from a TOML file (sections [device], [timing], [kernels]; `base` names another). */
#ifndef GPUD_SIM_PROFILE_H
#define GPUD_SIM_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "link.h"
#include "schedule.h"

#define PROFILE_KERNELS 256

struct profile_kernel { char pattern[SIM_NAME]; uint64_t duration_ns; };

struct profile {
    char name[SIM_NAME];                /* of the file, without .toml */
    struct sim_device_info info;        /* without uuid and pci_bus */
    struct sched_profile timing;
    uint32_t devices;
    uint32_t kernel_count;
    struct profile_kernel kernels[PROFILE_KERNELS];     /* first match wins; those of the file before those of its base */
};

/* Reads `name` (a file name with a slash or ending in .toml, else NAME.toml in `directory`). 0 or −1; then `error` has
 * one sentence with file, line, key and what is allowed. */
int profile_read(struct profile *profile, const char *directory, const char *name, char *error, size_t error_size);
/* Duration by the [kernels] table, 0 when no pattern matches. */
uint64_t profile_duration(const struct profile *profile, const char *kernel_name);

#endif
