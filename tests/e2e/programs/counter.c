/* counter PTX NAME KERNELS [ROUNDS [PAUSE_US]]: a small, real driver-API program. Each round launches KERNELS kernels NAME that add the round's
 * number to 1024 words, synchronises, copies back and checks every word; one line a round on stdout: `round N ok`. Linked against
 * libcuda.so.1 of whatever driver there is. Exit 0 after ROUNDS (0 or absent: never ends), 1 at the first wrong word or driver error. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS 1024u
#define CALL(name, ...)                                                                       \
    do {                                                                                      \
        int code_ = ((int (*)())need(#name))(__VA_ARGS__);                                    \
        if (code_ != 0) {                                                                     \
            fprintf(stderr, "counter: %s answered %d\n", #name, code_);                       \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

static void *library;

static void *need(const char *name)
{
    void *address = dlsym(library, name);
    if (!address) {
        fprintf(stderr, "counter: the driver has no %s\n", name);
        exit(1);
    }
    return address;
}

static char *text_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    char *text = calloc(1, 65536);
    if (fread(text, 1, 65535, file) == 0)
        exit(1);
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: counter PTX NAME KERNELS [ROUNDS [PAUSE_US]]\n");
        return 2;
    }
    int kernels = atoi(argv[3]);
    unsigned long rounds = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
    unsigned pause_us = argc > 5 ? (unsigned)atoi(argv[5]) : 0;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "counter: %s\n", dlerror());
        return 1;
    }
    void *context = NULL, *module = NULL, *function = NULL, *stream = NULL;
    uint64_t words = 0;
    static uint32_t expected[WORDS], got[WORDS];
    CALL(cuInit, 0u);
    CALL(cuCtxCreate_v2, &context, 0u, 0);
    CALL(cuModuleLoadData, &module, text_of(argv[1]));
    CALL(cuModuleGetFunction, &function, module, argv[2]);
    CALL(cuStreamCreate, &stream, 1u);
    CALL(cuMemAlloc_v2, &words, (size_t)sizeof got);
    CALL(cuMemsetD8_v2, words, (unsigned char)0, (size_t)sizeof got);
    CALL(cuCtxSynchronize);
    for (unsigned long round = 1; rounds == 0 || round <= rounds; round++) {
        uint32_t amount = (uint32_t)round, count = WORDS;
        void *parameters[] = {&words, &amount, &count};
        for (int i = 0; i < kernels; i++)
            CALL(cuLaunchKernel, function, WORDS / 128, 1u, 1u, 128u, 1u, 1u, 0u, stream, parameters, (void **)NULL);
        CALL(cuStreamSynchronize, stream);
        CALL(cuMemcpyDtoH_v2, (void *)got, words, (size_t)sizeof got);
        for (unsigned i = 0; i < WORDS; i++) {
            expected[i] += amount * (uint32_t)kernels;
            if (got[i] != expected[i]) {
                fprintf(stderr, "counter: word %u of round %lu is %u, should be %u\n", i, round, got[i], expected[i]);
                return 1;
            }
        }
        printf("round %lu ok\n", round);
        fflush(stdout);
        if (pause_us)
            usleep(pause_us);
    }
    return 0;
}
