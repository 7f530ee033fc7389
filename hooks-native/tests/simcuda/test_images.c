/* test_images.c: what is loaded and what is refused, the logs of the just-in-time compiler, the linker, the cache of compiled
 * kernels, and that the compiler's process is none of the program's business. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

struct logs { int options[4]; void *values[4]; char error[600], info[200]; };

static void open_logs(struct logs *logs)
{
    memset(logs, 'x', sizeof *logs);
    const int options[] = {5, 6, 3, 4};
    memcpy(logs->options, options, sizeof options);
    logs->values[0] = logs->error;
    logs->values[1] = (void *)sizeof logs->error;
    logs->values[2] = logs->info;
    logs->values[3] = (void *)sizeof logs->info;
}

/* Loading must fail with `expected`, and the log must hold `word`. */
static void refuse(const void *image, CUresult expected, const char *word)
{
    struct logs logs;
    CUmodule module = (CUmodule)0x5;
    CUlibrary library;
    open_logs(&logs);
    EXPECT(expected, cuModuleLoadDataEx(&module, image, 4, logs.options, logs.values));
    CHECK(strstr(logs.error, word), "the log says \"%.100s\", without \"%s\"", logs.error, word);
    CHECK((uintptr_t)logs.values[1] == strlen(logs.error) + 1, "%zu bytes said, %zu there", (size_t)logs.values[1], strlen(logs.error));
    CHECK(module == (CUmodule)0x5, "a module was given");
    open_logs(&logs);
    EXPECT(expected, cuLibraryLoadData(&library, image, logs.options, logs.values, 4, NULL, NULL, 0));
    CHECK(strstr(logs.error, word), "the log says \"%.100s\", without \"%s\"", logs.error, word);
}

static void test_refused(void)
{
    CUmodule module;
    refuse("\177ELF\2\1\1", CUDA_ERROR_NO_BINARY_FOR_GPU, "pip uninstall nvidia-nvjitlink");
    refuse("\x50\xed\x55\xba\1", CUDA_ERROR_NO_BINARY_FOR_GPU, "nvcc -ptx");
    refuse("\xb1\x43\x62\x46\1", CUDA_ERROR_NO_BINARY_FOR_GPU, "nvcc -ptx");
    refuse("BC\xc0\xde", CUDA_ERROR_NO_BINARY_FOR_GPU, "lto=False");
    refuse("", CUDA_ERROR_INVALID_IMAGE, "empty");
    refuse("  \n\t ", CUDA_ERROR_INVALID_IMAGE, "empty");
    refuse("\1\2\3", CUDA_ERROR_INVALID_IMAGE, "PTX");
    refuse("// word fail\n.version 8.0", CUDA_ERROR_INVALID_PTX, "<ptx>:7: foo.bar %r1");
    refuse("// word crash\n", CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "status 137");
    refuse("// word silent\n", CUDA_ERROR_OPERATING_SYSTEM, "left no");
    refuse("// word missing\n", CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "no C compiler");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&module, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(NULL, ".version"));
    EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/nowhere/x.ptx"));
    EXPECT(CUDA_ERROR_OPERATING_SYSTEM, cuModuleLoad(&module, "/"));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload((CUmodule)0x123));
    /* A log that is too short is cut, not overrun. */
    struct logs logs;
    open_logs(&logs);
    logs.values[1] = (void *)10;
    EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, "// word fail\n", 4, logs.options, logs.values));
    CHECK(strlen(logs.error) == 9 && logs.error[10] == 'x', "\"%.20s\"", logs.error);
}

static void test_linker(void)
{
    struct logs logs;
    CUlinkState link;
    CUlibrary library;
    void *image = NULL;
    size_t size = 0;
    char first[] = ".version 8.0\n.target sm_80\n.address_size 64\n// first\n", second[] = ".version 7.0\n.target sm_75\n// second\n";
    char bad[] = "// word fail\n", cubin[] = "\177ELF";
    open_logs(&logs);
    OK(cuLinkCreate_v2(4, logs.options, logs.values, &link));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLinkComplete(link, &image, &size));
    OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, first, sizeof first, "first.ptx", 0, NULL, NULL));
    OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, second, sizeof second - 1, "second.ptx", 0, NULL, NULL));
    OK(cuLinkComplete(link, &image, &size));
    CHECK(size && !strcmp(image, ".version 8.0\n.target sm_80\n.address_size 64\n// first\n\n// second\n"), "%s", (char *)image);
    CHECK(strlen(logs.info) && (uintptr_t)logs.values[3] == strlen(logs.info) + 1, "the info log is empty");
    OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryUnload(library));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, first, sizeof first, NULL, 0, NULL, NULL));
    OK(cuLinkDestroy(link));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLinkDestroy(link));
    open_logs(&logs);
    OK(cuLinkCreate_v2(4, logs.options, logs.values, &link));
    EXPECT(CUDA_ERROR_INVALID_PTX, cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, bad, sizeof bad, "bad.ptx", 0, NULL, NULL));
    CHECK(strstr(logs.error, "bad.ptx") && strstr(logs.error, ":7: foo.bar"), "%s", logs.error);
    EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, cuLinkAddData_v2(link, CU_JIT_INPUT_CUBIN, cubin, sizeof cubin, "x", 0, NULL, NULL));
    CHECK(strstr(logs.error, "nvjitlink"), "%s", logs.error);
    OK(cuLinkDestroy(link));
}

/* One text is compiled once. */
static void test_cache(void)
{
    CUmodule module;
    int before = compiles();
    OK(cuModuleLoadData(&module, ".version 8.0\n// cache\n"));
    CHECK(compiles() == before + 1, "%d compiled", compiles() - before);
    OK(cuModuleUnload(module));
    OK(cuModuleLoadData(&module, ".version 8.0\n// cache\n"));
    CHECK(compiles() == before + 1, "%d compiled", compiles() - before);
    OK(cuModuleUnload(module));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
}

static volatile sig_atomic_t children;
static void on_child(int number) { (void)number; children++; }

/* Whatever the program does about its children, ours is not one of them. */
static void test_children(void)
{
    CUmodule module;
    signal(SIGCHLD, on_child);
    OK(cuModuleLoadData(&module, ".version 8.0\n// with a handler\n"));
    CHECK(children == 0, "the handler was called %d times", (int)children);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1, "there is a child");
    signal(SIGCHLD, SIG_IGN);
    OK(cuModuleLoadData(&module, ".version 8.0\n// ignored\n"));
    EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, "// word fail\n// ignored\n"));
    signal(SIGCHLD, SIG_DFL);
    setenv("LD_LIBRARY_PATH", "/nowhere", 1);
    setenv("PYTHONHOME", "/nowhere", 1);
    OK(cuModuleLoadData(&module, ".version 8.0\n// clean\n"));
}

int main(void)
{
    start();
    test_refused();
    test_linker();
    test_cache();
    test_children();
    return check_summary("images");
}
