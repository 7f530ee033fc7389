/* log.c: the device log. Its lines: header, kernel, memset, copy, switch, clock, client, fault, lost, counters, end (docs/simulator.md). */
#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"

#define ROOM (1u << 20)
#define LINE 4096u                      /* no line is longer, but for its pieces */
#define TEXT 1000                       /* nor does a text of a client take more of one */
#define PERIOD_NS 240000000ull

struct log {
    int fd;
    uint64_t flushed_ns;
    uint64_t lost;                      /* lines that could not be written */
    off_t whole;                        /* the end of the last whole line in the file */
    bool torn;                          /* the line that is being written is one of them */
    struct sched_counters told[SIM_MAX_DEVICES];
    size_t used;
    char buffer[ROOM];
};

struct log *log_open(const char *path, char *error, unsigned long error_size)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    const char *why = NULL;
    if (fd < 0)
        why = strerror(errno);
    else if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        why = "not a plain file";
    else if (flock(fd, LOCK_EX | LOCK_NB))
        why = "another simulated node writes its log there";
    else if (ftruncate(fd, 0))
        why = strerror(errno);
    if (why) {
        snprintf(error, error_size, "GPUD_SIM_LOG=%s: %s; name a plain file of this node's own in a directory that exists", path, why);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    struct log *log = calloc(1, sizeof *log);
    if (!log) {
        snprintf(error, error_size, "GPUD_SIM_LOG=%s: no memory for the log's buffer", path);
        close(fd);
        return NULL;
    }
    log->fd = fd;
    return log;
}

/* When the disk is full the run goes on, and the footer says how many lines are missing. None stays in the file in part, so that what is
 * written when there is room again is read right. */
static void write_out(struct log *log)
{
    size_t from = 0;
    while (log->torn && from < log->used)       /* of a line whose beginning is lost */
        log->torn = log->buffer[from++] != '\n';
    size_t done = from;
    ssize_t n = 1;
    while (done < log->used && n > 0) {
        do
            n = write(log->fd, log->buffer + done, log->used - done);
        while (n < 0 && errno == EINTR);
        done += n > 0 ? (size_t)n : 0;
    }
    size_t line = done;
    while (line > from && log->buffer[line - 1] != '\n')
        line--;
    if (line > from)
        log->whole = lseek(log->fd, 0, SEEK_CUR) - (off_t)(done - line);
    if (done < log->used) {
        log->torn = log->buffer[log->used - 1] != '\n';
        bool spoilt = ftruncate(log->fd, log->whole) || lseek(log->fd, log->whole, SEEK_SET) < 0;
        log->lost += log->torn || spoilt;
        for (size_t i = line; i < log->used; i++)
            log->lost += log->buffer[i] == '\n';
    }
    log->used = 0;
}

__attribute__((format(printf, 2, 3))) static void put(struct log *log, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(log->buffer + log->used, ROOM - log->used, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < ROOM - log->used)
        log->used += (size_t)n;
}

/* Room for a whole line. */
static void begin(struct log *log)
{
    if (ROOM - log->used < LINE)
        write_out(log);
}

void log_header(struct node *node)
{
    struct log *log = node->log;
    if (!log)
        return;
    begin(log);
    put(log, "{\"type\":\"header\",\"version\":1,\"simulated\":true,\"node\":\"%s\",\"profile\":\"%s\",\"mode\":\"%s\",\"devices\":%u,"
        "\"time_scale\":%.17g,\"clock\":\"CLOCK_MONOTONIC\",\"epoch_ns\":%" PRId64 ",\"device_process\":%d,\"sm_count\":%u,"
        "\"slice_ns\":%" PRIu64 ",\"switch_ns\":%" PRIu64 ",\"uuids\":[",
        node->name, node->profile->name, node->profile->mode, node->device_count, node->page->time_scale, node->start_ns, (int)getpid(),
        node->page->devices[0].sm_count, node->profile->timing.slice_ns, node->profile->timing.switch_ns);
    for (uint32_t i = 0; i < node->device_count; i++) {
        put(log, "%s\"GPU-", i ? "," : "");
        for (int b = 0; b < 16; b++)
            put(log, "%s%02x", b == 4 || b == 6 || b == 8 || b == 10 ? "-" : "", node->page->devices[i].uuid[b]);
        put(log, "\"");
    }
    put(log, "]}\n");
}

static void put_pieces(struct log *log, const struct sched_report *r)
{
    if (!r->piece_kept)                 /* in one piece, from start to end */
        return;
    put(log, ",\"pieces\":[");
    for (uint32_t i = 0; i < r->piece_kept; i++) {
        if (ROOM - log->used < LINE)    /* a long line: part of it is written already */
            write_out(log);
        put(log, "%s[%" PRIu64 ",%" PRIu64 "]", i ? "," : "", r->pieces[i].start_ns, r->pieces[i].end_ns);
    }
    put(log, "]");
}

void log_report(struct node *node, const struct sched_report *r)
{
    static const char *const types[] = { [SIM_KERNEL] = "kernel", [SIM_COPY_H2D] = "copy", [SIM_COPY_D2H] = "copy",
                                         [SIM_COPY_D2D] = "copy", [SIM_MEMSET] = "memset" };
    static const char *const ways[] = { [SIM_COPY_H2D] = "h2d", [SIM_COPY_D2H] = "d2h", [SIM_COPY_D2D] = "d2d" };
    struct log *log = node->log;
    const struct device_queue *queue = r->queue_user;
    const struct sched_work *w = r->work;
    if (!log)
        return;
    begin(log);
    put(log, "{\"type\":\"%s\",\"device\":%u,\"pid\":%d,\"context\":%u,\"queue\":%u,", types[w->kind], r->device,
        (int)queue->client->pid, r->context, queue->number);
    if (w->kind == SIM_KERNEL)
        put(log, "\"name\":\"%s\",\"blocks\":%" PRIu64 ",", node->names[w->name].text, w->blocks);
    else if (w->kind == SIM_MEMSET)
        put(log, "\"bytes\":%" PRIu64 ",", w->bytes);
    else
        put(log, "\"direction\":\"%s\",\"bytes\":%" PRIu64 ",", ways[w->kind], w->bytes);
    put(log, "\"ticket\":%" PRIu64 ",\"submit\":%" PRIu64 ",\"start\":%" PRIu64 ",\"end\":%" PRIu64 ",\"run\":%" PRIu64
        ",\"slices\":%u,\"overrun\":%" PRIu64, w->ticket, w->submit_ns, r->start_ns, r->end_ns, r->run_ns, r->piece_count,
        r->overrun_ns);
    put_pieces(log, r);
    put(log, ",\"wall\":[%" PRId64 ",%" PRId64 "]%s}\n", (int64_t)w->stamp_ns - node->start_ns, (int64_t)device_clock() - node->start_ns,
        r->dropped ? ",\"dropped\":true" : "");
}

void log_switch(struct node *node, uint32_t device, uint32_t from, uint32_t to, uint64_t start_ns, uint64_t end_ns)
{
    struct log *log = node->log;
    if (!log)
        return;
    begin(log);
    put(log, "{\"type\":\"switch\",\"device\":%u,\"from\":%u,\"to\":%u,\"start\":%" PRIu64 ",\"end\":%" PRIu64 "}\n", device,
        from == UINT32_MAX ? 0 : from, to, start_ns, end_ns);
}

void log_clock(struct node *node, uint64_t model_ns)
{
    struct log *log = node->log;
    if (!log)
        return;
    begin(log);
    put(log, "{\"type\":\"clock\",\"model_ns\":%" PRIu64 ",\"epoch_ns\":%" PRId64 "}\n", model_ns, (int64_t)node->page->epoch_ns);
}

void log_client(struct node *node, const struct client *client, const char *what, const char *reason)
{
    struct log *log = node->log;
    if (!log)
        return;
    begin(log);
    put(log, "{\"type\":\"client\",\"pid\":%d,\"what\":\"%s\",\"model_ns\":%" PRIu64 ",\"reason\":\"%s\"}\n", (int)client->pid,
        what, device_model(node, device_clock()), reason);
}

/* A text of a client within a line: what JSON wants escaped, and what is no ASCII, is left out. */
static void put_text(struct log *log, const char *text)
{
    for (int room = TEXT; *text && room; text++, room--)
        if ((unsigned char)*text >= ' ' && (unsigned char)*text < 127 && *text != '"' && *text != '\\')
            put(log, "%c", *text);
}

void log_fault(struct node *node, const struct client *client, const char *call, const char *what)
{
    struct log *log = node->log;
    if (!log)
        return;
    begin(log);
    put(log, "{\"type\":\"fault\",\"pid\":%d,\"model_ns\":%" PRIu64 ",\"call\":\"", (int)client->pid, device_model(node, device_clock()));
    put_text(log, call);
    put(log, "\",\"what\":\"");
    put_text(log, what);
    put(log, "\"}\n");
}

void log_lost(struct node *node, const struct client *client, uint32_t device)
{
    struct log *log = node->log;
    if (!log)
        return;
    begin(log);
    put(log, "{\"type\":\"lost\",\"device\":%u,\"pid\":%d,\"model_ns\":%" PRIu64 "}\n", device, (int)client->pid,
        device_model(node, device_clock()));
}

static void put_counters(struct node *node, const char *type, bool always)
{
    struct log *log = node->log;
    for (uint32_t i = 0; i < node->device_count; i++) {
        struct sched_counters c = sched_counters(node->schedule, i);
        if (!always && !memcmp(&c, &log->told[i], sizeof c))
            continue;
        log->told[i] = c;
        begin(log);
        put(log, "{\"type\":\"%s\",\"device\":%u,\"model_ns\":%" PRIu64 ",\"busy_ns\":%" PRIu64 ",\"copy_busy_ns\":%" PRIu64
            ",\"overrun_ns\":%" PRIu64 ",\"overruns\":%" PRIu64 ",\"copy_overrun_ns\":%" PRIu64 ",\"kernels\":%" PRIu64 ",\"copies\":%" PRIu64
            ",\"switches\":%" PRIu64 ",\"switch_ns\":%" PRIu64 ",\"cuts\":%" PRIu64 ",\"host_timed\":%" PRIu64 ",\"moved\":%" PRIu64
            ",\"moved_ns\":%" PRIu64 ",\"shifted_ns\":%" PRIu64 ",\"lost_lines\":%" PRIu64 ",\"memory_peak\":%" PRIu64 ",\"valid\":%s}\n",
            type, i, device_model(node, device_clock()), c.busy_ns, c.copy_busy_ns, c.overrun_ns, c.overruns, c.copy_overrun_ns, c.kernels,
            c.copies, c.switches, c.switch_ns, c.cuts, c.host_timed, c.moved, c.moved_ns, c.shifted_ns, log->lost,
            node->memory[i].peak, c.overrun_ns * 100 > c.busy_ns || log->lost ? "false" : "true");
    }
}

uint64_t log_flush(struct node *node, uint64_t clock_ns)
{
    struct log *log = node->log;
    if (!log || !log->used)
        return UINT64_MAX;
    if (clock_ns < log->flushed_ns + PERIOD_NS && log->used < ROOM / 2)
        return log->flushed_ns + PERIOD_NS;
    put_counters(node, "counters", false);
    write_out(log);
    log->flushed_ns = clock_ns;
    return UINT64_MAX;
}

void log_close(struct node *node)
{
    struct log *log = node->log;
    if (!log)
        return;
    put_counters(node, "end", true);
    write_out(log);
    close(log->fd);
    free(log);
    node->log = NULL;
}
