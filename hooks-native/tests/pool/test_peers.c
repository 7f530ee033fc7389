/* test_peers.c: another device uses memory that leaves and comes back: it may then what it might before, and no more; and what was captured before
 * still computes there. */
#include <stdlib.h>
#include <sys/mman.h>

#include "../simcuda/driver_memory.h"
#include "steer.h"

static CUcontext contexts[2];

static void slots(uint64_t bytes)
{
    int fd = memfd_create("slots", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && steer_host(fd, bytes) == 0, "host slots");
}

/* All of the program's memory on device 0 leaves; `meanwhile` is done while it is away, and it comes back. */
static CUresult nothing(CUdeviceptr at)
{
    (void)at;
    return CUDA_SUCCESS;
}

static void away_and_back(CUresult (*meanwhile)(CUdeviceptr at), CUdeviceptr at)
{
    uint64_t moved;
    steer_away(1);
    steer_out(~0ull, &moved);
    CHECK(moved > 0 && steer_counts().resident == 0, "%llu bytes stay", (unsigned long long)steer_counts().resident);
    CHECK(meanwhile(at) == CUDA_SUCCESS, "while it is away");
    CHECK(steer_in(&moved) == 0 && moved > 0, "in");
    steer_away(0);
}

/* On device 1, in a context of its own: data[0] = data[0] * 2 + 1. An error that stays ends it. */
static CUresult peer_computes(CUdeviceptr data, CUcontext enabled)
{
    CUcontext context, gone;
    OK(cuCtxCreate_v2(&context, 0, 1));
    if (enabled)
        OK(cuCtxEnablePeerAccess(enabled, 0));
    times(load(), "times", data, 2, 1, NULL);
    CUresult result = cuCtxSynchronize();
    OK(cuCtxPopCurrent_v2(&gone));
    OK(cuCtxDestroy_v2(context));
    OK(cuCtxSetCurrent(contexts[0]));
    return result;
}

/* Plain memory: by cuCtxEnablePeerAccess. The pool gives a peer access to all that it has on a device. */
static void test_plain(CUmodule module)
{
    CUdeviceptr at;
    OK(cuCtxSetCurrent(contexts[0]));
    OK(cuMemAlloc_v2(&at, 4 * MIB));
    put_word(at, 1);
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuCtxEnablePeerAccess(contexts[0], 0));
    OK(cuCtxSetCurrent(contexts[0]));
    away_and_back(nothing, 0);
    OK(cuCtxSetCurrent(contexts[1]));
    times(module, "times", at, 2, 1, NULL);
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(contexts[0]));
    CHECK(word(at) == 3, "a peer computes in it: %u", word(at));
    OK(cuMemFree_v2(at));
}

static CUresult only_reads(CUdeviceptr at) { return grant(at, UNIT, 1, ACCESS_READ); }
static CUresult may_again(CUdeviceptr at) { return grant(at, UNIT, 1, ACCESS_READWRITE); }
static CUresult takes(CUdeviceptr at) { return grant(at, UNIT, 1, ACCESS_NONE); }

/* A mapping of its own: by cuMemSetAccess, also while it is away. */
static void test_mapping(void)
{
    CUmemAllocationProp prop = on_device(0);
    CUmemGenericAllocationHandle handle;
    CUmemLocation peer = { LOCATION_DEVICE, 1 };
    unsigned long long flags = 9;
    CUdeviceptr at;
    OK(cuCtxSetCurrent(contexts[0]));
    OK(cuMemAddressReserve(&at, UNIT, 0, 0, 0));
    OK(cuMemCreate(&handle, UNIT, &prop, 0));
    OK(cuMemMap(at, UNIT, 0, handle, 0));
    OK(grant(at, UNIT, 0, ACCESS_READWRITE));
    put_word(at, 1);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, peer_computes(at, NULL));
    OK(grant(at, UNIT, 1, ACCESS_READWRITE));
    EXPECT(CUDA_SUCCESS, peer_computes(at, NULL));
    away_and_back(nothing, at);
    EXPECT(CUDA_SUCCESS, peer_computes(at, NULL));
    CHECK(word(at) == 7, "%u", word(at));
    away_and_back(only_reads, at);
    OK(cuMemGetAccess(&flags, &peer, at));
    CHECK(flags == ACCESS_READ, "%llu", flags);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, peer_computes(at, NULL));
    away_and_back(may_again, at);
    EXPECT(CUDA_SUCCESS, peer_computes(at, NULL));
    away_and_back(takes, at);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, peer_computes(at, contexts[0]));
    CHECK(word(at) == 15, "%u", word(at));
    OK(cuMemUnmap(at, UNIT));
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(at, UNIT));
}

/* A graph that was captured over a mapping of its own computes there after it was away, and after the memory was mapped anew. */
static void test_graph(CUmodule module)
{
    CUmemAllocationProp prop = on_device(0);
    CUmemGenericAllocationHandle handle;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr at;
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemAddressReserve(&at, UNIT, 0, 0, 0));
    OK(cuMemCreate(&handle, UNIT, &prop, 0));
    OK(cuMemMap(at, UNIT, 0, handle, 0));
    OK(grant(at, UNIT, 0, ACCESS_READWRITE));
    put_word(at, 5);
    OK(cuStreamBeginCapture_v2(stream, 2));
    times(module, "times", at, 3, 1, stream);
    times(module, "times", at, 2, 0, stream);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    away_and_back(nothing, at);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(word(at) == 194, "after the swap: %u", word(at));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy_v2(stream));
    OK(cuMemUnmap(at, UNIT));
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(at, UNIT));
}

int main(void)
{
    contexts[0] = start();
    OK(cuDevicePrimaryCtxRetain(&contexts[1], 1));
    steer_attach();
    slots(64 * MIB);
    CUmodule module = load();
    OK(cuCtxSetCurrent(contexts[1]));
    CUmodule module_of_peer = load();
    OK(cuCtxSetCurrent(contexts[0]));
    test_graph(module);
    test_mapping();
    test_plain(module_of_peer);
    return check_summary("pool peers");
}
