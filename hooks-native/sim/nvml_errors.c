/* nvml_errors.c: what NVML's result codes mean. */
#include "nvml.h"

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
    return result >= 0 && result < (int)(sizeof texts / sizeof *texts) ? texts[result] : "Unknown Error";
}
