/* log.h: the device log: JSON lines, written in large pieces, never waited for by the schedule. */
#ifndef GPUD_SIM_LOG_H
#define GPUD_SIM_LOG_H

#include <stdbool.h>
#include <stdint.h>

struct log;
struct node;
struct client;
struct sched_report;

/* NULL and `error` filled in when the file cannot be written or is no plain file. */
struct log *log_open(const char *path, char *error, unsigned long error_size);
void log_header(struct node *node);
void log_report(struct node *node, const struct sched_report *report);
void log_switch(struct node *node, uint32_t device, uint32_t from, uint32_t to, uint64_t start_ns, uint64_t end_ns);
/* The machine's clock has a new relation to the model's. */
void log_clock(struct node *node, uint64_t model_ns);
void log_fault(struct node *node, const struct client *client, const char *call, const char *what);
void log_lost(struct node *node, const struct client *client, uint32_t device);
void log_client(struct node *node, const struct client *client, const char *what, const char *reason);
/* Writes out what is buffered if ¼ s has passed since the last time; says when (CLOCK_MONOTONIC) it wants to be called again,
 * UINT64_MAX when nothing is buffered. */
uint64_t log_flush(struct node *node, uint64_t clock_ns);
/* The footer, and the rest. */
void log_close(struct node *node);

#endif
