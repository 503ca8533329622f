/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The few types and fields of the kernel that the programs read. The attribute makes the compiler record each
 * access, and the loader moves it to the place where the running kernel has the field. Order and size here mean
 * nothing.
 */
#ifndef GABION_KERNEL_H
#define GABION_KERNEL_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#define PF_KTHREAD 0x00200000

struct net_device {
	int ifindex;
};

struct napi_struct {
	struct net_device *dev;
};

struct task_struct {
	unsigned int flags;
	int pid;
	int tgid;
	char comm[16];
};

#pragma clang attribute pop

#endif
