/* view.h - fills a reply's view of its last token; only for replies that asked. See wane/view.h. */
#ifndef WANE_SRC_VIEW_H
#define WANE_SRC_VIEW_H

#include "layer.h"

/* Before the row is looked at: what the head has done so far. */
void wane__view_open(struct wane__reply *reply);
/* The token was drawn and not yet accepted; its row is still there. `seconds`: what head, gate and draw took. */
void wane__view_token(struct wane__reply *reply, double seconds);
/* A token that the memo gave. */
void wane__view_repeat(struct wane__reply *reply);

#endif
