// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* A program that passes every packet: what a throttle costs is measured above it. */
#include "helpers.h"

SEC("xdp")
int empty(void *ctx)
{
	return 2;
}

LICENSE;
