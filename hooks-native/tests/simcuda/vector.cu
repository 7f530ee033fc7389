// vector.cu: kernels of an ordinary C program. vector.ptx was made of it: nvcc -ptx -arch=sm_80 vector.cu
#include <stdint.h>

__device__ int calls;
__constant__ float scale[4] = {1.0f, 2.0f, 4.0f, 8.0f};

extern "C" __global__ void saxpy(float a, const float *x, float *y, uint64_t n)
{
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n; i += (uint64_t)gridDim.x * blockDim.x)
        y[i] = a * x[i] + scale[i & 3] * y[i];
    if (blockIdx.x == 0 && threadIdx.x == 0)
        atomicAdd(&calls, 1);
}

// Sum of all elements: shared memory, barriers, one atomic a block.
extern "C" __global__ void total(const int *x, int *sum, int n)
{
    extern __shared__ int part[];
    int own = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        own += x[i];
    part[threadIdx.x] = own;
    __syncthreads();
    for (int width = blockDim.x / 2; width; width /= 2) {
        if (threadIdx.x < width)
            part[threadIdx.x] += part[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(sum, part[0]);
}

template <int TILE> __device__ void product(const float *a, const float *b, float *c, int n)
{
    __shared__ float at[TILE][TILE], bt[TILE][TILE];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    float sum = 0;
    for (int t = 0; t < n; t += TILE) {
        at[threadIdx.y][threadIdx.x] = a[y * n + t + threadIdx.x];
        bt[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + x];
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            sum += at[threadIdx.y][k] * bt[k][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n) { product<16>(a, b, c, n); }

extern "C" __global__ void waves(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = sinf(x[i]) + expf(-x[i]) + sqrtf(fabsf(x[i])) + logf(1.0f + x[i] * x[i]);
}
