// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The throttle of packet work, with the kernel's clock. */
#include "throttle.h"

INLINE u64 now(struct throttle_control *c, struct throttle_state *s)
{
	return ktime_ns();
}

INLINE u64 seed_of(struct throttle_control *c, struct throttle_state *s)
{
	return c->seed;
}
