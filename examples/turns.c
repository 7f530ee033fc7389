/* turns.c: a job that takes the GPU for a batch and gives it back, with gpud.h.
 *
 *   cc -I "$(python3 -m gpud.api.include)" -I $CUDA_HOME/include turns.c -o turns -lcuda -ldl
 *   gpud run ./turns [BATCHES [STEPS]]
 *
 * Each batch adds 1 to every word of a state on the device, STEPS times, and compares the state with plain arithmetic. Between two
 * batches the program does what needs no GPU, and another job has it. Exit code 1: something was computed wrong, or no turn could be had. */
#include <cuda.h>
#include <gpud.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS 4096u
#define SECONDS 1000000000ull
#define CHECK(call)                                                                     \
    do {                                                                                \
        CUresult code_ = (call);                                                        \
        if (code_ != CUDA_SUCCESS) {                                                    \
            fprintf(stderr, "turns: %s answered %d\n", #call, (int)code_);              \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

static const char PTX[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry train(.param .u64 state)\n{\n"
    "    .reg .b32 %r<5>;\n    .reg .b64 %rd<4>;\n"
    "    ld.param.u64 %rd1, [state];\n    cvta.to.global.u64 %rd1, %rd1;\n"
    "    mov.u32 %r1, %ctaid.x;\n    mov.u32 %r2, %ntid.x;\n    mov.u32 %r3, %tid.x;\n    mad.lo.u32 %r1, %r1, %r2, %r3;\n"
    "    mul.wide.u32 %rd2, %r1, 4;\n    add.u64 %rd3, %rd1, %rd2;\n"
    "    ld.global.u32 %r4, [%rd3];\n    add.u32 %r4, %r4, 1;\n    st.global.u32 [%rd3], %r4;\n    ret;\n}\n";

/* One batch, with the device taken; whether the state is right afterwards. */
static int train(CUfunction step, CUdeviceptr state, unsigned steps, uint32_t expected)
{
    static uint32_t found[WORDS];
    void *arguments[] = {&state};

    for (unsigned i = 0; i < steps; i++)
        CHECK(cuLaunchKernel(step, WORDS / 128, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuMemcpyDtoH(found, state, sizeof found));
    for (unsigned i = 0; i < WORDS; i++) {
        if (found[i] != expected)
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    unsigned batches = argc > 1 ? (unsigned)atoi(argv[1]) : 5, steps = argc > 2 ? (unsigned)atoi(argv[2]) : 10;
    CUcontext context;
    CUmodule module;
    CUfunction step;
    CUdeviceptr state;

    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, PTX));
    CHECK(cuModuleGetFunction(&step, module, "train"));
    CHECK(cuMemAlloc(&state, WORDS * sizeof(uint32_t)));
    CHECK(cuMemsetD32(state, 0, WORDS));    /* held until the device is ours, as every launch, copy and memset is */

    for (unsigned batch = 1; batch <= batches; batch++) {
        int turn = gpud_acquire(GPUD_CURRENT, 60 * SECONDS);
        if (turn < 0) {
            fprintf(stderr, "turns: batch %u: %s\n", batch, gpud_error_text(turn));
            return 1;
        }
        int right = train(step, state, steps, batch * steps);
        if (turn == GPUD_OK)                /* GPUD_UNLOCKED: nobody takes turns here, so there is nothing to release */
            gpud_release(GPUD_CURRENT);
        printf("batch %u: %s, %s\n", batch, right ? "right" : "WRONG", turn == GPUD_OK ? "alone on the device" : "no turns here");
        fflush(stdout);
        if (!right)
            return 1;
    }
    return 0;
}
