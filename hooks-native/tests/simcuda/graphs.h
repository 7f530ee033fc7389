/* graphs.h: the part of the driver API that the C tests of graphs call, and kernels as nodes. */
#ifndef SIM_TEST_GRAPHS_H
#define SIM_TEST_GRAPHS_H

#include <string.h>

#include "driver.h"

#define NODE_LIST CUgraphNode *, CUgraph, const CUgraphNode *, size_t
CUresult cuGraphCreate(CUgraph *, unsigned);
CUresult cuGraphClone(CUgraph *, CUgraph);
CUresult cuGraphNodeFindInClone(CUgraphNode *, CUgraphNode, CUgraph);
CUresult cuGraphNodeGetType(CUgraphNode, int *);
CUresult cuGraphGetRootNodes(CUgraph, CUgraphNode *, size_t *);
CUresult cuGraphGetEdges(CUgraph, CUgraphNode *, CUgraphNode *, size_t *);
CUresult cuGraphGetEdges_v2(CUgraph, CUgraphNode *, CUgraphNode *, CUgraphEdgeData *, size_t *);
CUresult cuGraphNodeGetDependencies(CUgraphNode, CUgraphNode *, size_t *);
CUresult cuGraphNodeGetDependentNodes(CUgraphNode, CUgraphNode *, size_t *);
CUresult cuGraphAddDependencies(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t);
CUresult cuGraphRemoveDependencies(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t);
CUresult cuGraphDestroyNode(CUgraphNode);
CUresult cuGraphAddKernelNode_v2(NODE_LIST, const CUDA_KERNEL_NODE_PARAMS *);
CUresult cuGraphAddMemcpyNode(NODE_LIST, const CUDA_MEMCPY3D *, CUcontext);
CUresult cuGraphAddMemsetNode(NODE_LIST, const CUDA_MEMSET_NODE_PARAMS_v2 *, CUcontext);
CUresult cuGraphAddHostNode(NODE_LIST, const CUDA_HOST_NODE_PARAMS *);
CUresult cuGraphAddChildGraphNode(NODE_LIST, CUgraph);
CUresult cuGraphAddEmptyNode(NODE_LIST);
CUresult cuGraphAddEventRecordNode(NODE_LIST, CUevent);
CUresult cuGraphAddEventWaitNode(NODE_LIST, CUevent);
CUresult cuGraphAddNode_v2(CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t, CUgraphNodeParams *);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode, CUDA_KERNEL_NODE_PARAMS *);
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *);
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode, CUDA_MEMCPY3D *);
CUresult cuGraphMemsetNodeGetParams(CUgraphNode, CUDA_MEMSET_NODE_PARAMS_v2 *);
CUresult cuGraphHostNodeGetParams(CUgraphNode, CUDA_HOST_NODE_PARAMS *);
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode, CUevent *);
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode, CUgraph *);
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode, int, void *);
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode, int, const void *);
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode, CUgraphNode);
CUresult cuGraphNodeSetParams(CUgraphNode, CUgraphNodeParams *);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *);
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D *, CUcontext);
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS_v2 *, CUcontext);
CUresult cuGraphExecHostNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_HOST_NODE_PARAMS *);
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec, CUgraphNode, CUgraph);
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec, CUgraphNode, CUevent);
CUresult cuGraphExecNodeSetParams(CUgraphExec, CUgraphNode, CUgraphNodeParams *);
CUresult cuGraphNodeSetEnabled(CUgraphExec, CUgraphNode, unsigned);
CUresult cuGraphNodeGetEnabled(CUgraphExec, CUgraphNode, unsigned *);
CUresult cuGraphInstantiateWithParams(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *);
CUresult cuGraphExecGetFlags(CUgraphExec, cuuint64_t *);
CUresult cuGraphExecUpdate_v2(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *);
CUresult cuGraphUpload(CUgraphExec, CUstream);
CUresult cuEventRecordWithFlags(CUevent, CUstream, unsigned);
CUresult cuStreamAddCallback(CUstream, CUstreamCallback, void *, unsigned);
CUresult cuStreamBeginCaptureToGraph(CUstream, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t, int);
CUresult cuStreamGetCaptureInfo_v2(CUstream, int *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *);
CUresult cuStreamUpdateCaptureDependencies(CUstream, CUgraphNode *, size_t, unsigned);

static CUmodule module;
static CUfunction slow_times, times;

/* data = data * factor + add, in one block. */
struct step_params { CUdeviceptr data; int factor, add; void *list[3]; CUDA_KERNEL_NODE_PARAMS params; };

static inline const CUDA_KERNEL_NODE_PARAMS *kernel(struct step_params *p, CUfunction f, CUdeviceptr data, int factor, int add)
{
    *p = (struct step_params){data, factor, add, {NULL}, {f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL, NULL}};
    p->list[0] = &p->data;
    p->list[1] = &p->factor;
    p->list[2] = &p->add;
    p->params.kernelParams = p->list;
    return &p->params;
}

static inline CUgraphNode add_kernel(CUgraph graph, const CUgraphNode *from, size_t count, CUfunction f, CUdeviceptr data, int factor, int add)
{
    struct step_params p;
    CUgraphNode node = NULL;
    OK(cuGraphAddKernelNode_v2(&node, graph, from, count, kernel(&p, f, data, factor, add)));
    return node;
}

static inline void put(CUfunction f, CUdeviceptr data, int factor, int add, CUstream stream)
{
    void *params[] = {&data, &factor, &add};
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static inline int value_at(CUdeviceptr at)
{
    int value = -1;
    OK(cuMemcpyDtoH_v2(&value, at, sizeof value));
    return value;
}

static inline CUgraphExec instance(CUgraph graph)
{
    CUgraphExec exec = NULL;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

/* Model time that a launch takes in a stream, behind a kernel so that the program's own calls are over before it begins. */
static inline double timed(CUgraphExec exec, CUstream stream, CUdeviceptr scratch)
{
    CUevent before, after;
    float ms = -1;
    OK(cuEventCreate(&before, 0));
    OK(cuEventCreate(&after, 0));
    put(slow_times, scratch, 0, 0, stream);
    OK(cuEventRecord(before, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuEventRecord(after, stream));
    OK(cuEventSynchronize(after));
    OK(cuEventElapsedTime_v2(&ms, before, after));
    OK(cuEventDestroy_v2(before));
    OK(cuEventDestroy_v2(after));
    return (double)ms;
}

static inline void begin_graphs(void)
{
    start();
    module = load();
    times = function(module, "times");
    slow_times = function(module, "slow_times");
}

#endif
