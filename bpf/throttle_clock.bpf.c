// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The throttle with a clock that steps by a given time at each packet, for tests of its rates. */
#include "throttle.h"

INLINE u64 now(struct throttle_control *c, struct throttle_state *s)
{
	return __sync_fetch_and_add(&s->clock_ns, c->step_ns) + c->step_ns;
}
