// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The throttle with a clock that steps by a given time at each packet, for tests of its rates. */
#include "throttle.h"

INLINE u64 now(struct throttle_control *c, struct throttle_state *s)
{
	return __sync_fetch_and_add(&s->clock_ns, c->step_ns) + c->step_ns;
}

/* The same frame is of a new flow at each step, where the test asks for that. */
INLINE u64 seed_of(struct throttle_control *c, struct throttle_state *s)
{
	return c->seed ^ (s->flows_differ ? s->clock_ns : 0);
}
