// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Programs that do nothing at the entry and the exit of each call: what the sensor's own costs is measured above them. */
#include "helpers.h"

SEC("tp_btf/sys_exit")
int empty_exit(u64 *ctx)
{
	return 0;
}

SEC("tp_btf/sys_enter")
int empty_enter(u64 *ctx)
{
	return 0;
}

LICENSE;
