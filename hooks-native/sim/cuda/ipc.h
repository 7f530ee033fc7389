/* ipc.h: what the 64 bytes of an interprocess handle hold. */
#ifndef SIM_CUDA_IPC_H
#define SIM_CUDA_IPC_H

#include "sim.h"

#define IPC_MEMORY_MAGIC 0x6d656d6370696d73ull
#define IPC_EVENT_MAGIC 0x746e766570696d73ull

struct ipc_memory { uint64_t magic; uint8_t device[16]; uint64_t offset, range_id, inside, bytes, foreign; };
struct ipc_event { uint64_t magic; uint8_t device[16]; uint64_t number, spare[4]; };
_Static_assert(sizeof(struct ipc_memory) == sizeof(CUipcMemHandle) && sizeof(struct ipc_event) == sizeof(CUipcEventHandle), "they fill the handles");

/* The device with this UUID. INVALID_HANDLE: not of this node; MAP_FAILED: this process may not see it. */
CUresult ipc_device(const uint8_t uuid[16], struct device **out);

#endif
