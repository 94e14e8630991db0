/* count.h - counters that many threads add to and any may read: exact, in no order with anything else. */
#ifndef WANE_CORE_COUNT_H
#define WANE_CORE_COUNT_H

#include <stdatomic.h>

static inline void wane__count_more(atomic_ullong *counter, unsigned long long more) {
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

static inline void wane__count(atomic_ullong *counter) {
    wane__count_more(counter, 1);
}

#endif
