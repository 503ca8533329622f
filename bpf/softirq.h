/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The layout of the softirq instruments in memory; `probe::softirq` reads the same bytes. */
#ifndef GABION_SOFTIRQ_H
#define GABION_SOFTIRQ_H

#define VECTORS 10
#define VECTOR_NET_RX 3
#define BUCKET_NS 4000000ULL
#define BUCKETS 256 /* of each CPU: one second */
#define CPUS_MAX 1024

/* What one CPU did in 4 ms. A slot is cleared by the first writer of its epoch, and only its own CPU writes it. */
struct softirq_bucket {
	u64 epoch; /* time / 4 ms */
	u32 time_ns[VECTORS];
	u32 runs[VECTORS];
	u32 rx_ksoftirqd_ns; /* the part of NET_RX that ran in ksoftirqd */
	u32 napi_thread_ns; /* packet work in threads named napi/... */
	u32 packets;
	u32 polls;
	u32 full_polls; /* polls that used up their budget */
	u32 unused;
};

/* The state of a CPU now, one cache line, read by XDP programs on other CPUs without a lock. */
struct softirq_live {
	u64 entry_ns; /* when the present handler began */
	u64 window; /* time / 4 ms of `used_ns` */
	u32 used_ns; /* packet work in this window */
	u32 vector; /* the present handler, or NO_VECTOR */
	u32 detail_off; /* written by the reader: only NET_RX is measured, without ksoftirqd's part */
	u32 runs; /* of all vectors, wraps */
	u64 napi_since_ns; /* when the present napi thread was scheduled, or 0 */
	u32 polls; /* wraps */
	u32 unused[3];
} __attribute__((aligned(64)));

#define NO_VECTOR 0xffffffffU

struct device_polls {
	u64 packets;
	u64 polls;
	u64 full_polls;
};

#endif
