/*
 * trace.h - the public interface to traces: what was decoded, recorded token by token. Part of wane.h.
 *
 * docs/trace.md specifies the files. Recording is off unless somebody asks for it.
 */
#ifndef WANE_TRACE_H
#define WANE_TRACE_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif

#endif
