/* trace_alone.h - what a recorder's options mean for the writer of traces, for whoever opens one: a model's recorder, a tracer alone. */
#ifndef WANE_TRACE_ALONE_H
#define WANE_TRACE_ALONE_H

#include "table/trace_write.h"

/* WANE_EINVAL, with what is wrong. `options` may be NULL. */
int wane__recorder_check(const wane_recorder_options *options, wane_error *error);
/* Where tokens' texts and log lines come from is left to the caller. */
struct wane__trace_write_options wane__recorder_writes(const wane_recorder_options *options);

#endif
