/* profile.h: a device profile, read from a TOML file (sections [device], [timing], [mig], [kernels]; `base` names another). */
#ifndef GPUD_SIM_PROFILE_H
#define GPUD_SIM_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "link.h"
#include "schedule.h"

#define PROFILE_KERNELS 256
#define PROFILE_MODE 64
#define PROFILE_INSTANCE_NAME 32
#define PROFILE_MEMORY_SLICES 8u

#define PROFILE_CHOICES 8

/* One launch of such a kernel takes one of these. */
struct profile_kernel { char pattern[SIM_NAME]; uint32_t count; uint64_t duration_ns[PROFILE_CHOICES]; };

struct profile {
    char name[SIM_NAME];                /* of the file, without .toml */
    struct sim_device_info info;        /* without uuid and pci_bus */
    struct sched_profile timing;
    uint32_t devices;
    char mode[PROFILE_MODE];            /* "timeslice", "mps", "mig:3g,3g" */
    bool merged;                        /* MPS */
    uint32_t mig_sms[8];                /* SMs of a MIG instance, by its compute slices; 0: there is none */
    double mig_memory_gb;               /* for their names; 0: memory_gib */
    uint32_t instance_count;            /* MIG instances of each device; 0: no MIG */
    uint8_t instances[8];               /* their compute slices */
    uint32_t kernel_count;
    struct profile_kernel kernels[PROFILE_KERNELS];     /* first match wins; those of the file before those of its base */
};

/* Reads `name` (a file name with a slash or ending in .toml, else NAME.toml in `directory`). 0 or −1; then `error` has
 * one sentence with file, line, key and what is allowed. */
int profile_read(struct profile *profile, const char *directory, const char *name, char *error, size_t error_size);
/* Sets how contexts share a device. False: `error` has the rest of a sentence that begins with where the text stands. */
bool profile_mode(struct profile *profile, const char *text, char *error, size_t error_size);
void profile_instance_name(const struct profile *profile, uint32_t compute_slices, char out[PROFILE_INSTANCE_NAME]);
/* What programs see as device `index`: a whole device, or a MIG instance of one. Without uuid and pci_bus. */
void profile_unit(const struct profile *profile, uint32_t index, struct sim_device_info *info, struct sched_profile *timing);
/* The row of the [kernels] table for a kernel's name, NULL when no pattern matches. */
const struct profile_kernel *profile_kernel(const struct profile *profile, const char *name);
/* Duration of the `launch`-th launch; of several durations one that looks drawn at random, the same at every run. NULL: 0. */
uint64_t profile_duration(const struct profile_kernel *kernel, uint64_t launch);

#endif
