/* test_arrays.c: arrays and mipmapped arrays: what may be made, what copies do with them, and that their memory comes back. */
#include <string.h>

#include "driver_memory.h"

enum { FLOAT = 0x20, HALF = 0x10, BYTE = 0x01, UNORM16X4 = 0xc5, BC1 = 0x91 };

static CUarray array(size_t width, size_t height, size_t depth, int format, unsigned channels, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {width, height, depth, format, channels, flags};
    CUarray made = NULL;
    OK(cuArray3DCreate_v2(&made, &d));
    return made;
}

static CUresult refused(size_t width, size_t height, size_t depth, int format, unsigned channels, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {width, height, depth, format, channels, flags};
    CUarray made;
    return cuArray3DCreate_v2(&made, &d);
}

static void test_descriptors(void)
{
    CUDA_ARRAY_DESCRIPTOR two = {64, 32, FLOAT, 2}, got;
    CUDA_ARRAY3D_DESCRIPTOR three;
    CUarray made;
    OK(cuArrayCreate_v2(&made, &two));
    OK(cuArrayGetDescriptor_v2(&got, made));
    CHECK(!memcmp(&got, &two, sizeof got), "another descriptor");
    OK(cuArray3DGetDescriptor_v2(&three, made));
    CHECK(three.Width == 64 && three.Height == 32 && three.Depth == 0 && three.Flags == 0, "in three dimensions");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuArrayGetDescriptor_v2(NULL, made));
    OK(cuArrayDestroy(made));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(made));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayGetDescriptor_v2(&got, made));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy((CUarray)0x1234));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(&made, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(NULL, &two));

    const unsigned layered = CUDA_ARRAY3D_LAYERED, cube = CUDA_ARRAY3D_CUBEMAP;
    EXPECT(CUDA_ERROR_INVALID_VALUE, refused(0, 0, 0, FLOAT, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, refused(8, 8, 0, FLOAT, 3, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, refused(8, 8, 0, 0x77, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, refused(8, 8, 0, FLOAT, 1, 0x8000));
    EXPECT(CUDA_ERROR_INVALID_VALUE, refused(131073, 0, 0, BYTE, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, refused(8, 65537, 0, BYTE, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, refused(8, 0, 8, BYTE, 1, 0));              /* depth without height, not layered */
    EXPECT(CUDA_ERROR_INVALID_VALUE, refused(8, 0, 2049, BYTE, 1, layered));
    EXPECT(CUDA_ERROR_INVALID_VALUE, refused(8, 4, 6, BYTE, 1, cube));
    EXPECT(CUDA_ERROR_INVALID_VALUE, refused(8, 8, 5, BYTE, 1, cube));
    EXPECT(CUDA_ERROR_INVALID_VALUE, refused(8, 8, 8, BYTE, 1, cube | layered));
    EXPECT(CUDA_ERROR_INVALID_VALUE, refused(8, 8, 0, UNORM16X4, 2, 0));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, refused(8, 8, 0, BC1, 4, 0));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, refused(8, 8, 0, BYTE, 1, CUDA_ARRAY3D_SPARSE));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, refused(16384, 16384, 16, FLOAT, 1, 0));
    OK(cuArrayDestroy(array(8, 8, 6, BYTE, 1, cube)));
    OK(cuArrayDestroy(array(8, 8, 12, BYTE, 1, cube | layered)));
    OK(cuArrayDestroy(array(8, 0, 5, HALF, 4, layered)));
    OK(cuArrayDestroy(array(8, 8, 0, UNORM16X4, 4, CUDA_ARRAY3D_SURFACE_LDST)));
}

static void test_linear(void)
{
    unsigned char from[512], to[512];
    CUarray a = array(256, 0, 0, BYTE, 2, 0), b = array(128, 0, 0, FLOAT, 1, 0);
    CUdeviceptr at = zeroes(512);
    CUstream stream;
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 3);
    OK(cuMemcpyHtoA_v2(a, 0, from, 512));
    OK(cuMemcpyAtoA_v2(b, 8, a, 16, 100));
    OK(cuMemcpyAtoD_v2(at, b, 8, 100));
    OK(cuMemcpyDtoH_v2(to, at, 100));
    CHECK(!memcmp(to, from + 16, 100), "host, array, array, device, host");
    OK(cuMemcpyDtoA_v2(b, 0, at, 512));
    memset(to, 1, sizeof to);
    OK(cuMemcpyAtoH_v2(to, b, 0, 512));
    CHECK(!memcmp(to, from + 16, 100) && to[100] == 0 && to[511] == 0, "device, array, host");
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemcpyHtoAAsync_v2(a, 256, from, 256, stream));
    OK(cuMemcpyAtoHAsync_v2(to, a, 256, 256, stream));
    CHECK(!memcmp(to, from, 256), "asynchronously");
    OK(cuStreamDestroy_v2(stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoA_v2(a, 1, from, 512));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoH_v2(to, a, 513, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoD_v2(at, a, 0, 513));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMemcpyHtoA_v2((CUarray)0x10, 0, from, 1));
    OK(cuArrayDestroy(a));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMemcpyHtoA_v2(a, 0, from, 1));
    OK(cuArrayDestroy(b));
    OK(cuMemFree_v2(at));
}

/* A block of a three-dimensional array, to another place of another shape, and out again. */
static void test_shaped(void)
{
    enum { W = 12, H = 7, D = 5 };
    float from[D][H][W], to[D][H][W];
    CUarray a = array(W, H, D, FLOAT, 1, 0), b = array(40, 20, 9, FLOAT, 1, CUDA_ARRAY3D_LAYERED);
    CUdeviceptr base;
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                from[z][y][x] = (float)(z * 10000 + y * 100 + x);
    CUDA_MEMCPY3D in = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = from, .srcPitch = sizeof from[0][0], .srcHeight = H,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = a, .WidthInBytes = sizeof from[0][0], .Height = H, .Depth = D};
    OK(cuMemcpy3D_v2(&in));
    CUDA_MEMCPY3D move = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = a, .srcXInBytes = 8, .srcY = 1, .srcZ = 2,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = b, .dstXInBytes = 100, .dstY = 13, .dstZ = 5,
                          .WidthInBytes = 40, .Height = 5, .Depth = 3};
    OK(cuMemcpy3D_v2(&move));
    memset(to, 0, sizeof to);
    CUDA_MEMCPY3D out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = b, .srcXInBytes = 100, .srcY = 13, .srcZ = 5,
                         .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = to, .dstXInBytes = 8, .dstY = 1, .dstZ = 2,
                         .dstPitch = sizeof to[0][0], .dstHeight = H, .WidthInBytes = 40, .Height = 5, .Depth = 3};
    OK(cuMemcpy3D_v2(&out));
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                bool inside = z >= 2 && y >= 1 && y < 6 && x >= 2;
                CHECK(to[z][y][x] == (inside ? from[z][y][x] : 0), "%d %d %d: %g", z, y, x, (double)to[z][y][x]);
            }
    CUDA_MEMCPY3D bad = move;
    bad.dstXInBytes = 124;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&bad));
    bad = move, bad.srcY = 3;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&bad));
    bad = move, bad.dstZ = 7;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&bad));
    bad = move, bad.srcLOD = 1;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&bad));
    bad = in, bad.srcPitch = 8;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&bad));
    /* Two dimensions, to linear memory. */
    size_t pitch;
    OK(cuMemAllocPitch_v2(&base, &pitch, sizeof from[0][0], H, 4));
    CUDA_MEMCPY2D plane = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = a, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = base,
                           .dstPitch = pitch, .WidthInBytes = sizeof from[0][0], .Height = H};
    OK(cuMemcpy2D_v2(&plane));
    OK(cuMemcpyDtoH_v2(to[0][0], base + pitch * 3, sizeof to[0][0]));
    CHECK(!memcmp(to[0][0], from[0][3], sizeof to[0][0]), "a row of the first plane");
    OK(cuMemFree_v2(base));
    OK(cuArrayDestroy(a));
    OK(cuArrayDestroy(b));
}

static void test_mipmap(void)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {60, 20, 0, FLOAT, 1, 0}, got;
    CUmipmappedArray mipmap;
    CUarray levels[6], none;
    float value = 3, back = 0;
    size_t before = left();
    OK(cuMipmappedArrayCreate(&mipmap, &d, 100));       /* clamped to 6: 60 30 15 7 3 1 */
    CHECK(left() < before, "it takes no memory");
    for (unsigned i = 0; i < 6; i++) {
        OK(cuMipmappedArrayGetLevel(&levels[i], mipmap, i));
        OK(cuArray3DGetDescriptor_v2(&got, levels[i]));
        CHECK(got.Width == d.Width >> i && got.Height == (20u >> i ? 20u >> i : 1), "level %u is %zu x %zu", i, got.Width, got.Height);
        value = (float)i;
        OK(cuMemcpyHtoA_v2(levels[i], got.Width * got.Height * 4 - 4, &value, 4));
    }
    for (unsigned i = 0; i < 6; i++) {
        OK(cuArray3DGetDescriptor_v2(&got, levels[i]));
        OK(cuMemcpyAtoH_v2(&back, levels[i], got.Width * got.Height * 4 - 4, 4));
        CHECK(back == (float)i, "level %u holds %g", i, (double)back);
    }
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&none, mipmap, 6));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(levels[2]));
    OK(cuMipmappedArrayDestroy(mipmap));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy(mipmap));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArray3DGetDescriptor_v2(&got, levels[0]));
    CHECK(left() == before, "%zd bytes are lost", (ssize_t)(before - left()));
}

/* Arrays are no addresses, and they end with their context. */
static void test_life(void)
{
    CUcontext ctx;
    CUarray kept;
    CUmipmappedArray mipmap;
    CUDA_ARRAY3D_DESCRIPTOR d = {1000, 1000, 0, FLOAT, 1, 0};
    size_t before = left();
    OK(cuCtxCreate_v2(&ctx, 0, 0));
    kept = array(1000, 1000, 0, FLOAT, 4, 0);
    OK(cuMipmappedArrayCreate(&mipmap, &d, 3));
    for (CUdeviceptr at = 0, end = zeroes(64), step = end; at < 3; at++, step += 2 * MIB)      /* about where they may lie */
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(step + 512));
    OK(cuCtxDestroy_v2(ctx));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(kept));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy(mipmap));
    CHECK(left() == before, "%zd bytes are lost", (ssize_t)(before - left()));
}

int main(void)
{
    start();
    size_t before = left();
    test_descriptors();
    test_linear();
    test_shaped();
    test_mipmap();
    test_life();
    CHECK(left() == before, "%zd bytes are lost", (ssize_t)(before - left()));
    return check_summary("arrays");
}
