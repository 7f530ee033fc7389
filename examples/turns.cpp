// turns.cpp: the same as turns.c with gpud::lock: a turn for the length of a block, whatever ends it.
//
//   c++ -std=c++17 -I "$(python3 -m gpud.api.include)" -I $CUDA_HOME/include turns.cpp -o turns -lcuda -ldl
//   gpud run ./turns [BATCHES]
//
// The third batch throws within its turn, to show that the device is free afterwards.
#include <cuda.h>
#include <gpud.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::size_t words = 4096;

void check(CUresult code, const char *what)
{
    if (code != CUDA_SUCCESS)
        throw std::runtime_error(std::string(what) + " answered " + std::to_string(code));
}

// Words on the device that are set and read back.
class State {
  public:
    State() { check(cuMemAlloc(&at_, words * sizeof(std::uint32_t)), "cuMemAlloc"); }
    ~State() { cuMemFree(at_); }
    State(const State &) = delete;
    State &operator=(const State &) = delete;

    bool becomes(std::uint32_t value)
    {
        std::vector<std::uint32_t> found(words);
        check(cuMemsetD32(at_, value, words), "cuMemsetD32");
        check(cuMemcpyDtoH(found.data(), at_, words * sizeof(std::uint32_t)), "cuMemcpyDtoH");
        for (std::uint32_t one : found)
            if (one != value)
                return false;
        return true;
    }

  private:
    CUdeviceptr at_ = 0;
};

bool batch(State &state, unsigned number)
{
    gpud::lock turn;                    // waits; throws gpud::error where no turn can be had
    bool right = state.becomes(number);
    if (number == 3)
        throw std::logic_error("the third batch is a bad one");
    return right;
}

int run(unsigned batches)
{
    CUcontext context;
    check(cuInit(0), "cuInit");
    check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    State state;
    for (unsigned number = 1; number <= batches; number++) {
        try {
            if (!batch(state, number))
                return 1;
            std::cout << "batch " << number << ": right" << std::endl;
        } catch (const std::logic_error &error) {
            int left = gpud_release(GPUD_CURRENT);      // the block has released already
            std::cout << "batch " << number << ": " << error.what() << "; a turn is left over: " << (left == GPUD_OK ? "yes" : "no") << std::endl;
        }
    }
    return 0;
}

}  // namespace

int main(int argc, char **argv)
{
    try {
        return run(argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 4);
    } catch (const gpud::error &error) {
        std::cerr << "turns: no turn: " << error.what() << std::endl;
    } catch (const std::exception &error) {
        std::cerr << "turns: " << error.what() << std::endl;
    }
    return 1;
}
