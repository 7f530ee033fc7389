/* nvml_system.c: what NVML says without asking a device: its result codes in words, the name of a process. */
#include "nvml.h"

#include <stdio.h>

NVML_API const char *nvmlErrorString(int result);

NVML_API const char *nvmlErrorString(int result)
{
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized",
        "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout", "Interrupt Request Issue",
        "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires reset",
        "GPU access blocked by the operating system", "Driver/library version mismatch", "In use by another client",
        "Insufficient Memory", "No data", "Requested vgpu operation not available with ECC enabled", "Insufficient Resources",
        "Requested frequency not supported", "Argument version mismatch", "Deprecated", "Not Ready", "GPU Not Found",
        "Invalid State",
    };
    if (result == NVML_ERROR_DRIVER_NOT_LOADED)
        return nvml_why();
    return result >= 0 && result < (int)(sizeof texts / sizeof *texts) ? texts[result] : "Unknown Error";
}

DECLARE(nvmlSystemGetDriverVersion, char *version, unsigned length)
{
    return nvml_link() ? nvml_give(version, length, "580.00.gpud-simulated") : NVML_ERROR_UNINITIALIZED;
}

DECLARE(nvmlSystemGetNVMLVersion, char *version, unsigned length)
{
    return nvml_link() ? nvml_give(version, length, "13.580.00.gpud-simulated") : NVML_ERROR_UNINITIALIZED;
}

DECLARE(nvmlSystemGetCudaDriverVersion_v2, int *version)
{
    if (!nvml_link() || !version)
        return nvml_link() ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_UNINITIALIZED;
    *version = (int)sim_whole(nvml_link(), 0)->driver_version;
    return NVML_SUCCESS;
}
ALSO(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2, int *version);

DECLARE(nvmlSystemGetProcessName, unsigned pid, char *name, unsigned length)
{
    char path[64], text[256];
    if (!nvml_link() || !name || !length)
        return nvml_link() ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_UNINITIALIZED;
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = 0;
    if (!n)
        return NVML_ERROR_NOT_FOUND;
    snprintf(name, length, "%s", text);
    return NVML_SUCCESS;
}
