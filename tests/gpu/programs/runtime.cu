/* runtime.cu: CUDA C++ as programs are written, on the runtime API: <<<>>>, cudaLaunchKernel and its kin, streams, a captured graph and
 * its update, cooperative kernels, pool allocations, host functions. Built by nvcc, once with each default stream.
 *
 * Prints a line of JSON: launches (kernels and graphs that entered the driver), wrong; then waits for the end of its standard input. */
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

static const int SIZE = 1 << 14, BLOCK = 128, GRID = SIZE / BLOCK, ROUNDS = 100;
static unsigned long launches, wrong;

static void ok(cudaError_t code, const char *what)
{
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
    exit(1);
}
#define OK(call) ok((call), #call)

__global__ void add(int *x, int amount)
{
    x[blockIdx.x * blockDim.x + threadIdx.x] += amount;
}

/* Each block needs what all others wrote before. */
__global__ void rotate(int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[(i + BLOCK) % n] + 1;
    cooperative_groups::this_grid().sync();
    x[i] = y[i];
}

static void expect(const int *device, int value, const char *what)
{
    std::vector<int> host(SIZE);
    OK(cudaMemcpy(host.data(), device, SIZE * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < SIZE; i++)
        if (host[i] != value) {
            fprintf(stderr, "%s: word %d is %d, not %d\n", what, i, host[i], value);
            wrong++;
            return;
        }
}

static int *zeros()
{
    int *words = nullptr;
    OK(cudaMalloc(&words, SIZE * sizeof(int)));
    OK(cudaMemset(words, 0, SIZE * sizeof(int)));
    OK(cudaDeviceSynchronize());
    return words;
}

static void plain(cudaStream_t stream)
{
    int *words = zeros(), amount = 2;
    void *parameters[] = {&words, &amount};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(GRID);
    config.blockDim = dim3(BLOCK);
    config.stream = stream;
    for (int i = 0; i < ROUNDS; i++) {
        add<<<GRID, BLOCK, 0, stream>>>(words, 1);
        OK(cudaLaunchKernel((const void *)add, dim3(GRID), dim3(BLOCK), parameters, 0, stream));
        OK(cudaLaunchKernelEx(&config, add, words, 3));
    }
    OK(cudaStreamSynchronize(stream));
    launches += 3 * ROUNDS;
    expect(words, 6 * ROUNDS, "plain launches");
    OK(cudaFree(words));
}

static void graph()
{
    int *words = zeros();
    cudaStream_t stream;
    cudaGraph_t captured[2];
    cudaGraphExec_t instance;
    OK(cudaStreamCreate(&stream));
    for (int i = 0; i < 2; i++) {
        OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        for (int k = 0; k < 4; k++)
            add<<<GRID, BLOCK, 0, stream>>>(words, 1 + i);
        OK(cudaStreamEndCapture(stream, &captured[i]));
    }
    OK(cudaGraphInstantiate(&instance, captured[0], 0));
    for (int i = 0; i < ROUNDS; i++)
        OK(cudaGraphLaunch(instance, stream));
    cudaGraphExecUpdateResultInfo info;
    OK(cudaGraphExecUpdate(instance, captured[1], &info));
    for (int i = 0; i < ROUNDS; i++)
        OK(cudaGraphLaunch(instance, stream));
    OK(cudaStreamSynchronize(stream));
    launches += 2 * ROUNDS;
    expect(words, 12 * ROUNDS, "graphs");
    OK(cudaGraphExecDestroy(instance));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(words));
}

static void cooperative()
{
    int *x = zeros(), *y = zeros(), n = SIZE;
    void *parameters[] = {&x, &y, &n};
    for (int i = 0; i < ROUNDS; i++)
        OK(cudaLaunchCooperativeKernel((const void *)rotate, dim3(GRID), dim3(BLOCK), parameters, 0, nullptr));
    OK(cudaDeviceSynchronize());
    launches += ROUNDS;
    expect(x, ROUNDS, "cooperative kernels");
    OK(cudaFree(x));
    OK(cudaFree(y));
}

static void CUDART_CB count(void *calls)
{
    ++*(int *)calls;
}

static void pools()
{
    cudaStream_t stream;
    int *words = nullptr, calls = 0;
    OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1));
    for (int i = 0; i < ROUNDS; i++) {
        OK(cudaMallocAsync(&words, SIZE * sizeof(int), stream));
        OK(cudaMemsetAsync(words, 0, SIZE * sizeof(int), stream));
        add<<<GRID, BLOCK, 0, stream>>>(words, 5);
        OK(cudaLaunchHostFunc(stream, count, &calls));
        if (i == ROUNDS - 1) {
            OK(cudaStreamSynchronize(stream));
            expect(words, 5, "pool memory");
        }
        OK(cudaFreeAsync(words, stream));
    }
    OK(cudaStreamSynchronize(stream));
    launches += ROUNDS;
    wrong += calls != ROUNDS;
    OK(cudaStreamDestroy(stream));
}

int main()
{
    cudaStream_t streams[2];
    OK(cudaSetDevice(0));
    for (cudaStream_t &stream : streams)
        OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    plain(nullptr);
    plain(cudaStreamLegacy);
    plain(cudaStreamPerThread);
    plain(streams[0]);
    graph();
    cooperative();
    pools();
    std::thread other([&] { plain(nullptr); });
    other.join();
    OK(cudaDeviceSynchronize());
    printf("{\"launches\": %lu, \"wrong\": %lu}\n", launches, wrong);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return wrong != 0;
}
