/* ipc.c: interprocess memory handles. A handle names a range of the node and a place in it; whoever opens it holds the range too, so
 * the memory lives until the last of them closes it, and is no longer found once it is freed. */
#include <string.h>

#include "capture.h"
#include "heap.h"
#include "ipc.h"
#include "peer.h"
#include "view.h"

CUresult ipc_device(const uint8_t uuid[16], struct device **out) {
    for (int i = 0; i < sim.device_count; i++) {
        if (!memcmp(sim.device[i].info.uuid, uuid, 16)) {
            *out = &sim.device[i];
            return CUDA_SUCCESS;
        }
    }
    for (uint32_t i = 0; i < sim_device_count(sim.link); i++)
        if (!memcmp(sim_device(sim.link, i)->uuid, uuid, 16))
            return CUDA_ERROR_MAP_FAILED;
    return CUDA_ERROR_INVALID_HANDLE;
}

ENTRY(cuIpcGetMemHandle, CUipcMemHandle *out, CUdeviceptr address) {
    struct ctx *ctx;
    struct range range;
    char *at = (char *)(uintptr_t)address;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!out || !heap_find(at, &range) || range.start != at || range.heap->kind != HEAP_PLAIN)
        return CUDA_ERROR_INVALID_VALUE;        /* only what cuMemAlloc gave */
    struct ipc_memory handle = {.magic = IPC_MEMORY_MAGIC, .offset = (uint64_t)(range.segment_start - range.device->base),
                                .inside = (uint64_t)(at - range.segment_start), .bytes = range.bytes, .foreign = range.id};
    uint64_t segment_bytes;
    memcpy(handle.device, range.device->info.uuid, sizeof handle.device);
    result = sim_result(sim_memory_range(sim.link, range.device->node_index, handle.offset, &handle.range_id, &segment_bytes));
    if (!result)
        memcpy(out, &handle, sizeof handle);
    return result;
}

static CUresult open_handle(CUdeviceptr *out, const CUipcMemHandle *handle, unsigned flags) {
    struct ctx *ctx;
    struct device *device;
    struct ipc_memory memory;
    char *at;
    CUresult result = capture_allows(&ctx);
    if (result)
        return result;
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&memory, handle, sizeof memory);
    result = memory.magic == IPC_MEMORY_MAGIC ? ipc_device(memory.device, &device) : CUDA_ERROR_INVALID_HANDLE;
    if (!result && device != ctx->device && !peer_possible(ctx->device, device))
        result = CUDA_ERROR_MAP_FAILED;
    if (!result)
        result = heap_import(device->imports, ctx, memory.offset, memory.range_id, memory.inside, memory.bytes, memory.foreign, &at);
    if (!result) {
        view_changed();
        *out = (CUdeviceptr)(uintptr_t)at;
    }
    return result;
}

ENTRY(cuIpcOpenMemHandle, CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) { return open_handle(out, &handle, flags); }
ENTRY(cuIpcOpenMemHandle_v2, CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) { return open_handle(out, &handle, flags); }

ENTRY(cuIpcCloseMemHandle, CUdeviceptr address) {
    struct ctx *ctx;
    struct range range;
    char *at = (char *)(uintptr_t)address;
    CUresult result = capture_allows(&ctx);
    if (result)
        return result;
    if (!heap_find(at, &range) || range.start != at || range.heap->kind != HEAP_IMPORTS)
        return CUDA_ERROR_INVALID_VALUE;
    if (range.opened == 1)
        result = ctx_synchronise(range.ctx);    /* work may still use it */
    return result ? result : heap_import_close(at);
}
