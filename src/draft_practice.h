/*
 * draft_practice.h - what the first replies would have to find out about blocks, found out before they come.
 *
 *     single tokens  t0 t1 … t8       rows of each
 *     blocks of      17, 9, 4, 4      the same rows: blocks of that class count from the start (ahead.h)
 *     timed          1 … 48 rows      what a block costs (draft_pace.h), so that the first draft has the right length
 *
 * On short contexts, alone in the call; other kinds are rehearsed when replies come to them.
 */
#ifndef WANE_DRAFT_PRACTICE_H
#define WANE_DRAFT_PRACTICE_H

#include "ahead.h"

/*
 * On sequence 0, which must be empty, and is afterwards. About `seconds` at most: what would take longer is left to the replies. Nothing is drafted
 * or counted as a reply's; a call that fails ends it, and costs nothing else. For the decoding thread.
 */
void wane__drafts_practise(struct wane__drafts *drafts, double seconds);

#endif
