/* nvml_unsupported.c: every other name that nvidia-ml-py looks up is there and answers "not supported". */
#include "nvml.h"

int nvml_unsupported(void);

int nvml_unsupported(void)
{
    return NVML_ERROR_NOT_SUPPORTED;
}

#define UNSUPPORTED(name) NVML_API int name(void) __attribute__((alias("nvml_unsupported")));
#include "nvml_unsupported.h"
