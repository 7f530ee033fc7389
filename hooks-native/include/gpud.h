/* gpud.h: take and give back a GPU that several jobs have by turns. For C and C++; header only, links with nothing but libdl.
 *
 *   #include <gpud.h>
 *   if (gpud_acquire(GPUD_CURRENT, GPUD_FOREVER) >= 0) { train_one_batch(); gpud_release(GPUD_CURRENT); }
 *   gpud::lock turn;                      // C++: throws gpud::error, releases at the end of the block
 *
 * A program under `gpud run` needs none of this: it takes a turn with its first launch and loses it when it is idle. An explicit turn
 * says where a batch begins and ends, so that none is cut in two and none holds the device in between. Turns of one process nest and are
 * the whole process's: every thread may launch during them.
 *
 * Without the hook in the process (no `gpud run`; the Python package can do without), the functions answer GPUD_ERROR_NO_HOOK; with GPUD_OPTIONAL=1 in the environment
 * they answer GPUD_UNLOCKED instead, and the program runs as if it were alone. */
#ifndef GPUD_H
#define GPUD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#define GPUD_API_VERSION 1
#define GPUD_CURRENT (-1)       /* the calling thread's current device; the process's first where it has none yet */
#define GPUD_FOREVER UINT64_MAX

/* Answers. Those below zero are errors: nothing was taken, nothing released. */
#define GPUD_OK 0
#define GPUD_UNLOCKED 1             /* nobody takes turns on this device: go on */
#define GPUD_ERROR_TIMEOUT (-1)     /* not within timeout_ns */
#define GPUD_ERROR_NO_HOOK (-2)     /* the program was not started under gpud */
#define GPUD_ERROR_NO_DAEMON (-3)   /* nobody answers: no turn can be had */
#define GPUD_ERROR_NOT_HELD (-4)    /* release without acquire */
#define GPUD_ERROR_DEVICE (-5)      /* no such device */
#define GPUD_ERROR_REFUSED (-6)     /* the daemon says no; its reason is on stderr */
#define GPUD_ERROR_SYSTEM (-7)      /* out of memory, or a system call failed */

static inline const char *gpud_error_text(int code)
{
    switch (code) {
    case GPUD_OK: return "the device is yours";
    case GPUD_UNLOCKED: return "nobody takes turns on this device";
    case GPUD_ERROR_TIMEOUT: return "the device did not become free in time";
    case GPUD_ERROR_NO_HOOK: return "the program was not started under gpud: start it with `gpud run`, or set GPUD_OPTIONAL=1";
    case GPUD_ERROR_NO_DAEMON: return "no gpud daemon answers: start one with `gpud serve`";
    case GPUD_ERROR_NOT_HELD: return "release without acquire";
    case GPUD_ERROR_DEVICE: return "no such device";
    case GPUD_ERROR_REFUSED: return "the daemon refused the turn";
    case GPUD_ERROR_SYSTEM: return "out of memory, or a system call failed";
    default: return "unknown answer of gpud";
    }
}

/* What the hook exports. Not to be called directly. */
typedef int gpud_hook_turns(const int *devices, unsigned count, uint64_t timeout_ns);
typedef int gpud_hook_turns_for(const int *devices, unsigned count, uint64_t timeout_ns, const char *reason);
typedef int gpud_hook_device(void);
#ifdef __cplusplus
#define GPUD_CAST(type, value) reinterpret_cast<type>(value)
#else
#define GPUD_CAST(type, value) ((type)(value))
#endif

static inline int gpud_call_(const char *name, const int *devices, unsigned count, uint64_t timeout_ns)
{
    gpud_hook_turns *call = GPUD_CAST(gpud_hook_turns *, dlsym(RTLD_DEFAULT, name));
    const char *optional = getenv("GPUD_OPTIONAL");

    if (call != NULL)
        return call(devices, count, timeout_ns);
    return optional != NULL && optional[0] == '1' && optional[1] == '\0' ? GPUD_UNLOCKED : GPUD_ERROR_NO_HOOK;
}

/* Waits until the process may use all of these devices (ordinals as the program sees them), for at most timeout_ns; 0 asks without
 * waiting. All or nothing. Nested calls count. */
static inline int gpud_acquire_all(const int *devices, unsigned count, uint64_t timeout_ns)
{
    return gpud_call_("gpud_hook_acquire", devices, count, timeout_ns);
}

/* The same, and says what for: `gpud ps` and `gpud why` show it to those who wait, until the process's last turn there is released. UTF-8, may be
 * NULL; what is beyond 36 bytes is cut. A process has one reason at a time: the last one that was given. */
static inline int gpud_acquire_all_for(const int *devices, unsigned count, uint64_t timeout_ns, const char *reason)
{
    gpud_hook_turns_for *call = GPUD_CAST(gpud_hook_turns_for *, dlsym(RTLD_DEFAULT, "gpud_hook_acquire_for"));
    return call != NULL ? call(devices, count, timeout_ns, reason) : gpud_acquire_all(devices, count, timeout_ns);
}

/* Undoes one gpud_acquire_all that answered GPUD_OK. The device leaves when somebody else wants it: not before the work submitted so far is done. */
static inline int gpud_release_all(const int *devices, unsigned count)
{
    return gpud_call_("gpud_hook_release", devices, count, 0);
}

/* What GPUD_CURRENT means now; GPUD_ERROR_NO_HOOK without the hook. */
static inline int gpud_current(void)
{
    gpud_hook_device *call = GPUD_CAST(gpud_hook_device *, dlsym(RTLD_DEFAULT, "gpud_hook_current"));
    return call != NULL ? call() : GPUD_ERROR_NO_HOOK;
}

static inline int gpud_acquire(int device, uint64_t timeout_ns)
{
    return gpud_acquire_all(&device, 1, timeout_ns);
}

static inline int gpud_acquire_for(int device, uint64_t timeout_ns, const char *reason)
{
    return gpud_acquire_all_for(&device, 1, timeout_ns, reason);
}

static inline int gpud_release(int device)
{
    return gpud_release_all(&device, 1);
}

#ifdef __cplusplus
#include <stdexcept>

namespace gpud {

struct error : std::runtime_error {
    int code;
    explicit error(int answer) : std::runtime_error(gpud_error_text(answer)), code(answer) {}
};

/* A turn for the length of a block. */
class lock {
  public:
    explicit lock(int device = GPUD_CURRENT, uint64_t timeout_ns = GPUD_FOREVER, const char *reason = nullptr)
        : device_(device == GPUD_CURRENT && gpud_current() >= 0 ? gpud_current() : device),
          taken_(gpud_acquire_for(device_, timeout_ns, reason))
    {
        if (taken_ < 0)
            throw error(taken_);
    }
    ~lock()
    {
        if (taken_ == GPUD_OK)
            gpud_release(device_);
    }
    lock(const lock &) = delete;
    lock &operator=(const lock &) = delete;

  private:
    int device_;    /* not GPUD_CURRENT: the thread may look at another device when the block ends */
    int taken_;
};

}  // namespace gpud
#endif

#endif
