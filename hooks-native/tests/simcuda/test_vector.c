/* test_vector.c: an ordinary C program on the driver API with kernels that nvcc compiled to PTX (vector.cu), compiled and run on
 * the simulated device. The first argument is vector.ptx. */
#include <math.h>
#include <string.h>

#include "driver.h"

enum { N = 10000, SIDE = 64 };

static CUdeviceptr put(const void *from, size_t bytes)
{
    CUdeviceptr at = 0;
    OK(cuMemAlloc_v2(&at, bytes));
    OK(cuMemcpyHtoD_v2(at, from, bytes));
    return at;
}

static void test_saxpy(CUmodule module)
{
    static float x[N], y[N], got[N];
    float a = 2.5f;
    uint64_t n = N;
    int calls = -1;
    size_t bytes;
    CUdeviceptr counter;
    for (int i = 0; i < N; i++) {
        x[i] = (float)i * 0.25f;
        y[i] = (float)(i % 17);
    }
    CUdeviceptr dx = put(x, sizeof x), dy = put(y, sizeof y);
    void *params[] = {&a, &dx, &dy, &n};
    OK(cuLaunchKernel(function(module, "saxpy"), 7, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH_v2(got, dy, sizeof got));
    int wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += got[i] != a * x[i] + (float)(1 << (i & 3)) * y[i];
    CHECK(!wrong, "%d of %d elements are wrong", wrong, N);
    OK(cuModuleGetGlobal_v2(&counter, &bytes, module, "calls"));
    OK(cuMemcpyDtoH_v2(&calls, counter, sizeof calls));
    CHECK(calls == 1, "%d calls counted", calls);
}

static void test_total(CUmodule module)
{
    static int x[N];
    int n = N, sum = 0, expected = 0;
    for (int i = 0; i < N; i++)
        expected += x[i] = (i * 37) % 101 - 50;
    CUdeviceptr dx = put(x, sizeof x), dsum = put(&sum, sizeof sum);
    void *params[] = {&dx, &dsum, &n};
    OK(cuLaunchKernel(function(module, "total"), 9, 1, 1, 256, 1, 1, 256 * sizeof(int), NULL, params, NULL));
    OK(cuMemcpyDtoH_v2(&sum, dsum, sizeof sum));
    CHECK(sum == expected, "%d, not %d", sum, expected);
}

static void test_matmul(CUmodule module)
{
    static float a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];
    int n = SIDE;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            a[i][j] = (float)((i + j) % 7);
            b[i][j] = (float)((i * j) % 5);
        }
    CUdeviceptr da = put(a, sizeof a), db = put(b, sizeof b), dc = put(c, sizeof c);
    void *params[] = {&da, &db, &dc, &n};
    OK(cuLaunchKernel(function(module, "matmul"), SIDE / 16, SIDE / 16, 1, 16, 16, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH_v2(c, dc, sizeof c));
    int wrong = 0;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            float sum = 0;
            for (int k = 0; k < SIDE; k++)
                sum += a[i][k] * b[k][j];
            wrong += c[i][j] != sum;
        }
    CHECK(!wrong, "%d elements are wrong", wrong);
}

static void test_waves(CUmodule module)
{
    static float x[N], y[N];
    int n = N;
    for (int i = 0; i < N; i++)
        x[i] = (float)i * 0.001f - 3.0f;
    CUdeviceptr dx = put(x, sizeof x), dy = put(y, sizeof y);
    void *params[] = {&dx, &dy, &n};
    OK(cuLaunchKernel(function(module, "waves"), (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH_v2(y, dy, sizeof y));
    double worst = 0;
    for (int i = 0; i < N; i++) {
        double v = (double)x[i], expected = sin(v) + exp(-v) + sqrt(fabs(v)) + log(1 + v * v);
        worst = fmax(worst, fabs((double)y[i] - expected) / fmax(1, fabs(expected)));
    }
    CHECK(worst < 1e-5, "off by %g", worst);
}

int main(int argc, char **argv)
{
    CUmodule module;
    start();
    OK(cuModuleLoad(&module, argc > 1 ? argv[1] : "vector.ptx"));
    if (check_failures)
        return check_summary("vector");
    test_saxpy(module);
    test_total(module);
    test_matmul(module);
    test_waves(module);
    OK(cuCtxSynchronize());
    return check_summary("vector");
}
