/* SPDX-License-Identifier: (Apache-2.0 OR MIT) */
/*
 * The load of the guard's experiments: senders, receivers, and the programs of a user that the load harms.
 *
 *   load ROLE key=value ...
 *
 * Every role begins at `start` (monotonic clock, ns), lasts `seconds`, and prints what happened as lines of
 * `name value...` at its end. Nothing leaves the network namespace in which it is started.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <linux/membarrier.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000ULL
#define BATCH 64
#define FRAME 60
#define FRAME6 62

static char **options;

static const char *text(const char *name, const char *otherwise)
{
	size_t length = strlen(name);

	for (char **o = options; *o; o++)
		if (!strncmp(*o, name, length) && (*o)[length] == '=')
			return *o + length + 1;
	return otherwise;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *found = text(name, NULL);

	return found ? strtoull(found, NULL, 10) : otherwise;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t at)
{
	struct timespec t = { .tv_sec = (time_t)(at / SECOND), .tv_nsec = (long)(at % SECOND) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static uint64_t start_ns, end_ns;

static void begin(void)
{
	start_ns = number("start", 0);
	if (!start_ns)
		start_ns = now();
	end_ns = start_ns + number("milliseconds", 1000) * 1000000;
	sleep_until(start_ns);
}

static void fail(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t random_state = 88172645463325252ULL;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void parse_mac(const char *from, uint8_t *to)
{
	unsigned m[6];

	if (sscanf(from, "%x:%x:%x:%x:%x:%x", m, m + 1, m + 2, m + 3, m + 4, m + 5) != 6)
		fail("to=MAC");
	for (int i = 0; i < 6; i++)
		to[i] = (uint8_t)m[i];
}

static uint16_t sum16(const uint8_t *at, int length, uint32_t sum)
{
	for (int i = 0; i < length; i += 2) {
		uint16_t word;

		memcpy(&word, at + i, 2);
		sum += word;
	}
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* A frame of UDP from 10.0.0.1 to 5.0.0.0/8, or from fd00::1 to fd05::/16; returns its length. */
static int make_frame(uint8_t *f, int is_ipv6)
{
	memset(f, 0, 128);
	parse_mac(text("to", ""), f);
	f[6] = 2;
	f[11] = 1;
	if (is_ipv6) {
		static const uint8_t source[16] = { 0xfd, [15] = 1 }, destination[16] = { 0xfd, 5 };

		f[12] = 0x86;
		f[13] = 0xdd;
		f[14] = 0x60;
		f[19] = 8;
		f[20] = 17;
		f[21] = 64;
		memcpy(f + 22, source, 16);
		memcpy(f + 38, destination, 16);
		f[57] = 9; /* the destination's port */
		f[59] = 8;
		f[60] = f[61] = 1; /* a wrong checksum would be dropped before it costs: IPv6 needs a right one */
		return FRAME6;
	}
	f[12] = 8;
	f[14] = 0x45;
	f[17] = 46;
	f[22] = 64;
	f[23] = 17;
	f[26] = 10;
	f[29] = 1;
	f[30] = 5;
	f[37] = 9;
	f[39] = 26;
	return FRAME;
}

/* Flow `slot` with destination number `to`. */
static void aim(uint8_t *f, int is_ipv6, uint32_t slot, uint64_t to)
{
	uint16_t port = htons((uint16_t)(1024 + slot % 60000));

	if (is_ipv6) {
		uint16_t sum;

		memcpy(f + 46, &to, 8);
		memcpy(f + 54, &port, 2);
		memset(f + 60, 0, 2);
		sum = (uint16_t)~sum16(f + 22, 32 + 8, htons(17) + htons(8));
		if (!sum)
			sum = 0xffff;
		memcpy(f + 60, &sum, 2);
		return;
	}
	f[31] = (uint8_t)to;
	f[32] = (uint8_t)(to >> 8);
	f[33] = (uint8_t)(to >> 16);
	memcpy(f + 34, &port, 2);
	memset(f + 24, 0, 2);
	uint16_t sum = (uint16_t)~sum16(f + 14, 20, 0);
	memcpy(f + 24, &sum, 2);
}

struct slot {
	uint64_t to;
	uint32_t left;
};

/*
 * Floods like pktgen with IPDST_RND, flows and flowlen: each packet takes a slot at random, and a slot draws a new
 * destination after `length` packets (0: never). In the first `slow_ms` it sends `slow_rate` packets a second, then `rate`.
 * 0 is as fast as it goes; it sleeps shortly each 4 ms, as a CPU
 * that never schedules delays every grace period by itself.
 */
static void flood(void)
{
	int is_ipv6 = number("family", 4) == 6;
	uint32_t flows = (uint32_t)number("flows", 32768), length = (uint32_t)number("length", 10);
	uint64_t rate = number("rate", 0), on = number("on", 0) * 1000000, off = number("off", 0) * 1000000;
	uint64_t sent = 0, refused = 0, first = 0, last_sleep, rate_begin, slow = number("slow_ms", 0) * 1000000;
	uint64_t full_rate = rate, paced = 0;
	struct slot *slots = calloc(flows, sizeof(*slots));
	static uint8_t frames[BATCH][128];
	struct iovec vectors[BATCH];
	struct mmsghdr messages[BATCH];
	struct sockaddr_ll to = { .sll_family = AF_PACKET };
	int one = 1, s = socket(AF_PACKET, SOCK_RAW, 0), size = 0;

	if (s < 0 || !slots)
		fail("a packet socket");
	to.sll_ifindex = (int)if_nametoindex(text("if", ""));
	if (bind(s, (struct sockaddr *)&to, sizeof(to)))
		fail("if=NAME");
	setsockopt(s, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one));
	memset(messages, 0, sizeof(messages));
	for (int i = 0; i < BATCH; i++) {
		size = make_frame(frames[i], is_ipv6);
		vectors[i] = (struct iovec){ frames[i], (size_t)size };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &vectors[i], .msg_iovlen = 1 };
	}
	random_state ^= number("seed", 1) * 0x9e3779b97f4a7c15ULL;
	begin();
	last_sleep = rate_begin = now();
	for (uint64_t t = now(); t < end_ns; t = now()) {
		int batch = BATCH, done;

		if (on && (t - start_ns) % (on + off) >= on) {
			sleep_until(start_ns + ((t - start_ns) / (on + off) + 1) * (on + off));
			continue;
		}
		if (slow) {
			int is_over = t - start_ns >= slow;

			rate = is_over ? full_rate : number("slow_rate", 20000);
			if (is_over) {
				slow = 0;
				first = 0; /* of the flood itself */
				rate_begin = t;
				paced = 0;
			}
		}
		if (rate) {
			uint64_t due = (t - rate_begin) * rate / SECOND;

			if (due <= paced) {
				sleep_until(t + 200000);
				continue;
			}
			if (due - paced < BATCH)
				batch = (int)(due - paced);
			paced += (uint64_t)batch;
		} else if (t - last_sleep > 4000000) {
			struct timespec shortest = { .tv_nsec = 1 };

			nanosleep(&shortest, NULL);
			last_sleep = t;
		}
		for (int i = 0; i < batch; i++) {
			struct slot *flow = &slots[next_random() % flows];

			if (!flow->left) {
				flow->to = next_random();
				flow->left = length ? length : UINT32_MAX;
			}
			flow->left--;
			aim(frames[i], is_ipv6, (uint32_t)(flow - slots), flow->to);
		}
		if (!first)
			first = now();
		done = sendmmsg(s, messages, (unsigned)batch, 0);
		if (done > 0)
			sent += (uint64_t)done;
		if (done < batch)
			refused += (uint64_t)(batch - (done > 0 ? done : 0));
	}
	printf("sent %lu\nrefused %lu\nfirst %lu\nlast %lu\n", sent, refused, first, now());
}

#define INSN(code_, dst_, src_, off_, imm_) \
	((struct bpf_insn){ .code = (code_), .dst_reg = (dst_), .src_reg = (src_), .off = (off_), .imm = (imm_) })
#define MOV(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOVI(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define OP(op, d, s) INSN(BPF_ALU64 | (op) | BPF_X, d, s, 0, 0)
#define OPI(op, d, i) INSN(BPF_ALU64 | (op) | BPF_K, d, 0, 0, i)
#define LOAD(size, d, s, o) INSN(BPF_LDX | BPF_MEM | (size), d, s, o, 0)
#define STORE(size, d, o, s) INSN(BPF_STX | BPF_MEM | (size), d, s, o, 0)
#define CALL(n) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, n)

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(__NR_bpf, command, attr, sizeof(*attr));
}

/*
 * Frames made in the kernel: a test run of an XDP program with live frames, which gives each frame a source port and a
 * destination that changes about 4 times a second, and sends it out of `if`. Faster than any program of a user.
 */
static void live(void)
{
	static char log[65536];
	uint8_t frame[128];
	int interface = (int)if_nametoindex(text("if", "")), program;
	uint64_t repeat = number("repeat", 131072), sent = 0, first = 0;
	uint32_t fixed;

	make_frame(frame, 0);
	memset(frame + 30, 0, 4);
	fixed = sum16(frame + 14, 20, 0);
	frame[30] = 5;
	struct bpf_insn code[] = {
		LOAD(BPF_W, 6, 1, 0), /* data */
		LOAD(BPF_W, 7, 1, 4), /* its end */
		MOV(8, 6),
		OPI(BPF_ADD, 8, FRAME),
		INSN(BPF_JMP | BPF_JGT | BPF_X, 8, 7, 37, 0), /* shorter: pass */
		CALL(7), /* a random number */
		MOV(8, 0),
		OPI(BPF_AND, 8, 32767), /* the slot */
		CALL(5), /* the time */
		MOV(1, 8),
		OPI(BPF_LSH, 1, 13),
		OP(BPF_ADD, 0, 1),
		OPI(BPF_RSH, 0, 28), /* about 4 times a second, each slot at another moment */
		OPI(BPF_LSH, 0, 15),
		OP(BPF_OR, 0, 8),
		OPI(BPF_MUL, 0, 0x5bd1e995),
		MOV(1, 0),
		OPI(BPF_RSH, 1, 15),
		OP(BPF_XOR, 0, 1),
		STORE(BPF_B, 6, 31, 0),
		OPI(BPF_RSH, 0, 8),
		STORE(BPF_H, 6, 32, 0),
		OPI(BPF_ADD, 8, 1024),
		INSN(BPF_ALU | BPF_END | BPF_TO_BE, 8, 0, 0, 16),
		STORE(BPF_H, 6, 34, 8),
		LOAD(BPF_H, 1, 6, 30),
		LOAD(BPF_H, 2, 6, 32),
		OP(BPF_ADD, 1, 2),
		OPI(BPF_ADD, 1, (int)fixed),
		MOV(2, 1),
		OPI(BPF_RSH, 2, 16),
		OPI(BPF_AND, 1, 0xffff),
		OP(BPF_ADD, 1, 2),
		MOV(2, 1),
		OPI(BPF_RSH, 2, 16),
		OP(BPF_ADD, 1, 2),
		OPI(BPF_XOR, 1, 0xffff),
		STORE(BPF_H, 6, 24, 1),
		MOVI(1, interface),
		MOVI(2, 0),
		CALL(23), /* redirect */
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
		MOVI(0, 2),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	union bpf_attr load = { .prog_type = BPF_PROG_TYPE_XDP };

	load.insns = (uint64_t)(uintptr_t)code;
	load.insn_cnt = sizeof(code) / sizeof(code[0]);
	load.license = (uint64_t)(uintptr_t)"Dual MIT/GPL";
	load.log_buf = (uint64_t)(uintptr_t)log;
	load.log_size = sizeof(log);
	load.log_level = 1;
	program = (int)bpf(BPF_PROG_LOAD, &load);
	if (program < 0) {
		fputs(log, stderr);
		fail("the generator of frames");
	}
	begin();
	for (; now() < end_ns;) {
		union bpf_attr run = { 0 };

		if (!first)
			first = now();
		run.test.prog_fd = (uint32_t)program;
		run.test.data_in = (uint64_t)(uintptr_t)frame;
		run.test.data_size_in = FRAME;
		run.test.repeat = (uint32_t)repeat;
		run.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
		run.test.batch_size = 64;
		if (bpf(BPF_PROG_TEST_RUN, &run))
			fail("live frames");
		sent += repeat;
	}
	printf("sent %lu\nrefused 0\nfirst %lu\nlast %lu\n", sent, first, now());
}

/* The program of a user: it reads the clock in a loop, and each jump is time that it did not get. */
static void spin(void)
{
	uint64_t least = number("least_us", 100) * 1000, most = 0, last, cpu;
	size_t count = 0, room = 1 << 20;
	uint64_t(*gaps)[2] = calloc(room, sizeof(*gaps));
	struct timespec used;

	if (!gaps)
		fail("memory");
	begin();
	last = now();
	for (uint64_t t = last; t < end_ns; last = t) {
		t = now();
		if (t - last < least || count >= room)
			continue;
		gaps[count][0] = last;
		gaps[count++][1] = t - last;
		if (t - last > most)
			most = t - last;
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	cpu = (uint64_t)used.tv_sec * SECOND + (uint64_t)used.tv_nsec;
	printf("cpu %lu\nmost %lu\n", cpu, most);
	for (size_t i = 0; i < count; i++)
		printf("gap %lu %lu\n", gaps[i][0], gaps[i][1]);
}

/* Times grace periods of RCU: one `membarrier` each `each_ms`. */
static void grace(void)
{
	uint64_t each = number("each_ms", 5) * 1000000, due;

	begin();
	due = start_ns;
	for (uint64_t t = now(); t < end_ns; t = now()) {
		uint64_t after;

		if (syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
			fail("membarrier");
		after = now();
		printf("grace %lu %lu\n", t, after - t);
		due += each;
		if (due < after)
			due = after;
		sleep_until(due);
	}
}

struct stamp {
	uint64_t number, sent_ns;
};

static int udp(const char *from, uint16_t from_port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(from_port) };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), one = 1, size = 8 << 20;

	inet_pton(AF_INET, from, &a.sin_addr);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof(a)))
		fail("a UDP socket");
	return s;
}

/*
 * Ordinary traffic: a protected flow (port 7777) and an established one that no list has (7778), 500 a second each, and
 * new flows of another prefix (7779), 200 a second.
 */
static void talk(void)
{
	uint64_t sent[3] = { 0 }, failed = 0;
	struct sockaddr_in to = { .sin_family = AF_INET };
	int flows[2] = { udp("10.0.0.1", 7001), udp("10.0.0.1", 7002) };
	uint64_t quiet = number("new_from_ms", 0) * 1000000;

	inet_pton(AF_INET, "10.0.0.2", &to.sin_addr);
	begin();
	for (uint64_t n = 0, due = start_ns; due < end_ns; n++, due += 1000000) {
		sleep_until(due);
		for (int which = 0; which < 2; which++) {
			struct stamp stamp = { sent[which], now() };

			if ((n & 1) != (uint64_t)which)
				continue;
			to.sin_port = htons((uint16_t)(7777 + which));
			if (sendto(flows[which], &stamp, sizeof(stamp), 0, (struct sockaddr *)&to, sizeof(to)) > 0)
				sent[which]++;
			else
				failed++;
		}
		if (n % 5 == 0 && due - start_ns >= quiet) {
			struct stamp stamp = { sent[2], now() };
			int s = udp("10.0.9.1", (uint16_t)(10000 + sent[2] % 50000));

			to.sin_port = htons(7779);
			if (sendto(s, &stamp, sizeof(stamp), 0, (struct sockaddr *)&to, sizeof(to)) > 0)
				sent[2]++;
			else
				failed++;
			close(s);
		}
	}
	printf("protected %lu\nestablished %lu\nnew %lu\nfailed %lu\n", sent[0], sent[1], sent[2], failed);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void listen_to(void)
{
	uint64_t received[3] = { 0 }, wait = number("wait_ms", 300) * 1000000;
	size_t room = 1 << 18, count = 0;
	uint64_t *late = calloc(room, sizeof(*late));
	struct pollfd sockets[3];

	if (!late)
		fail("memory");
	for (int i = 0; i < 3; i++)
		sockets[i] = (struct pollfd){ .fd = udp("10.0.0.2", (uint16_t)(7777 + i)), .events = POLLIN };
	printf("ready\n");
	fflush(stdout);
	begin();
	while (now() < end_ns + wait) {
		if (poll(sockets, 3, 20) <= 0)
			continue;
		for (int i = 0; i < 3; i++) {
			struct stamp stamp;

			while (recv(sockets[i].fd, &stamp, sizeof(stamp), 0) == sizeof(stamp)) {
				received[i]++;
				if (!i && count < room)
					late[count++] = now() - stamp.sent_ns;
			}
		}
	}
	qsort(late, count, sizeof(*late), by_size);
	printf("protected %lu\nestablished %lu\nnew %lu\n", received[0], received[1], received[2]);
	if (count)
		printf("p50 %lu\np99 %lu\n", late[count / 2], late[count * 99 / 100]);
}

/*
 * A task that is busy, for the cause that is not packets: 40 of 50 ms. In the real-time class, as a program of the
 * ordinary class would only take the turns that others leave.
 */
static void busy(void)
{
	struct sched_param priority = { .sched_priority = 50 };

	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		fail("SCHED_FIFO");
	begin();
	while (now() < end_ns) {
		uint64_t turn = now();

		while (now() < turn + 40000000)
			;
		sleep_until(turn + 50000000);
	}
	printf("done 1\n");
}

/* Makes packets dear: many packet sockets on `if`, each with a filter of many steps that refuses all. */
static void dear(void)
{
	static struct {
		uint16_t code;
		uint8_t yes, no;
		uint32_t value;
	} code[400];
	struct {
		uint16_t length;
		void *code;
	} filter = { 400, code };
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(0x0003) };
	uint64_t count = number("sockets", 60);

	for (int i = 0; i < 399; i++) {
		code[i].code = i % 2 ? 0x54 : 0x28; /* load a half word; and it with a mask */
		code[i].value = i % 2 ? 0xfff : 12;
	}
	code[399].code = 6;
	at.sll_ifindex = (int)if_nametoindex(text("if", ""));
	begin();
	for (uint64_t i = 0; i < count; i++) {
		int s = socket(AF_PACKET, SOCK_RAW, 0);

		if (s < 0 || setsockopt(s, SOL_SOCKET, 26 /* SO_ATTACH_FILTER */, &filter, sizeof(filter)) ||
		    bind(s, (struct sockaddr *)&at, sizeof(at)))
			fail("a packet socket with a filter");
	}
	sleep_until(end_ns);
	printf("done 1\n");
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} roles[] = { { "flood", flood }, { "live", live }, { "spin", spin },	 { "grace", grace },
		      { "talk", talk },	  { "listen", listen_to }, { "busy", busy }, { "dear", dear } };

	options = arguments + (count > 1 ? 2 : 1);
	for (size_t i = 0; count > 1 && i < sizeof(roles) / sizeof(roles[0]); i++) {
		if (!strcmp(arguments[1], roles[i].name)) {
			roles[i].run();
			return 0;
		}
	}
	fprintf(stderr, "load: no such role\n");
	return 2;
}
