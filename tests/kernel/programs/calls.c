/* SPDX-License-Identifier: (Apache-2.0 OR MIT) */
/* Makes system calls that the tests count: calls NAME ARGUMENT... */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile char *flipped;
static char letters[2];

/* Changes one letter of a name as fast as it can. */
static void *flip(void *unused)
{
	(void)unused;
	for (unsigned i = 0;; i++)
		*flipped = letters[i & 1];
	return NULL;
}

/* Opens the name `count` times, and prints device and inode of each file. */
static void open_often(char *name, long count, int is_printed)
{
	for (long i = 0; i < count; i++) {
		struct stat about;
		int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);

		if (fd < 0 || fstat(fd, &about))
			exit(1);
		close(fd);
		if (is_printed)
			printf("%lu %lu\n", (unsigned long)about.st_dev, (unsigned long)about.st_ino);
	}
}

/* Changes the port of an address as fast as it can. */
static void *flip_port(void *address)
{
	volatile unsigned short *port = &((struct sockaddr_in *)address)->sin_port;

	for (unsigned i = 0;; i++)
		*port = htons(i & 1 ? 9001 : 9002);
	return NULL;
}

/* Connects `count` times to an address that another thread changes, and prints the port that the kernel took. */
static void connect_often(long count)
{
	static struct sockaddr_in address;
	pthread_t thread;

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons(9001);
	pthread_create(&thread, NULL, flip_port, &address);
	for (long i = 0; i < count; i++) {
		struct sockaddr_in peer;
		socklen_t bytes = sizeof(peer);
		int fd = socket(AF_INET, SOCK_DGRAM, 0);

		if (fd < 0 || syscall(SYS_connect, fd, &address, sizeof(address)) ||
		    getpeername(fd, (void *)&peer, &bytes))
			exit(1);
		close(fd);
		printf("%u\n", ntohs(peer.sin_port));
	}
}

/* One call of each kind whose name is read twice, with names that nobody changes. */
static int named_calls(const char *folder)
{
	struct open_how how = { .flags = O_RDONLY };
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(address);
	int listener, fd;

	if (chdir(folder))
		return 1;
	if (syscall(SYS_creat, "made", 0600) < 0 || syscall(SYS_open, "made", O_RDONLY, 0) < 0 ||
	    syscall(SYS_openat, AT_FDCWD, "made", O_RDONLY, 0) < 0 ||
	    syscall(SYS_openat2, AT_FDCWD, "made", &how, sizeof(how)) < 0)
		return 1;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (void *)&address, sizeof(address)) || listen(listener, 1) ||
	    getsockname(listener, (void *)&address, &bytes))
		return 1;
	return syscall(SYS_connect, fd, &address, sizeof(address)) != 0;
}

/* Connects two sockets of an address, and sends by each way. */
static int talk(struct sockaddr *address, socklen_t bytes, int flags)
{
	char data[64] = "some data";
	struct iovec parts[2] = { { data, 4 }, { data + 4, 5 } };
	struct sockaddr_storage from;
	socklen_t from_bytes = sizeof(from), length = bytes;
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	struct mmsghdr several[2] = { { .msg_hdr = message }, { .msg_hdr = message } };
	int listener = socket(address->sa_family, SOCK_STREAM | flags, 0);
	int client = socket(address->sa_family, SOCK_STREAM, 0), server;

	if (bind(listener, address, bytes) || listen(listener, 2) || getsockname(listener, address, &length) ||
	    connect(client, address, length))
		return 1;
	server = accept4(listener, (void *)&from, &from_bytes, SOCK_CLOEXEC);
	if (server < 0 || send(client, data, 9, 0) != 9 || recv(server, data, sizeof(data), 0) != 9 ||
	    sendmsg(client, &message, 0) != 9 || recvmsg(server, &message, 0) != 9 ||
	    sendmmsg(client, several, 2, 0) != 2 || recvmmsg(server, several, 1, 0, NULL) != 1)
		return 1;
	return shutdown(client, SHUT_WR) || close(client) || close(server) || close(listener);
}

/* Sends to a socket that is not connected. */
static int send_to(struct sockaddr *address, socklen_t bytes)
{
	char data[64] = "a datagram";
	struct sockaddr_storage from;
	socklen_t length = bytes, from_bytes = sizeof(from);
	struct iovec part = { data, 10 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_name = address, .msg_namelen = bytes };
	int server = socket(address->sa_family, SOCK_DGRAM, 0), client = socket(address->sa_family, SOCK_DGRAM, 0);

	if (bind(server, address, bytes) || getsockname(server, address, &length) ||
	    sendto(client, data, 10, 0, address, length) != 10 ||
	    recvfrom(server, data, sizeof(data), 0, (void *)&from, &from_bytes) != 10 ||
	    sendmsg(client, &message, 0) != 10)
		return 1;
	message.msg_name = &from;
	message.msg_namelen = sizeof(from);
	return recvmsg(server, &message, 0) != 10 || close(client) || close(server);
}

/* Sockets of each family, with the path of one in the file system and in the abstract space. */
static int sockets(const char *path)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_un local = { .sun_family = AF_UNIX }, hidden = { .sun_family = AF_UNIX };
	int probe = socket(AF_INET6, SOCK_STREAM, 0), result;

	snprintf(local.sun_path, sizeof(local.sun_path), "%s", path);
	snprintf(hidden.sun_path + 1, sizeof(hidden.sun_path) - 1, "gabion-%d", getpid());
	result = talk((void *)&v4, sizeof(v4), 0) || talk((void *)&local, sizeof(local), SOCK_CLOEXEC) ||
		 talk((void *)&hidden, sizeof(hidden), 0);
	unlink(path);
	v4.sin_port = 0;
	result = result || send_to((void *)&v4, sizeof(v4)) || send_to((void *)&local, sizeof(local));
	unlink(path);
	/* A machine may have no IPv6. */
	if (probe >= 0 && !bind(probe, (void *)&v6, sizeof(v6))) {
		result = result || talk((void *)&v6, sizeof(v6), 0);
		v6.sin6_port = 0;
		result = result || send_to((void *)&v6, sizeof(v6));
	}
	return result;
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "";

	if (!strcmp(what, "opens") && count == 4) {
		open_often(arguments[3], atol(arguments[2]), 0);
	} else if (!strcmp(what, "flip") && count == 5) {
		/* calls flip COUNT NAME LETTER: the last letter of NAME becomes LETTER and its own in turn. */
		pthread_t thread;
		char *name = strdup(arguments[3]);

		flipped = name + strlen(name) - 1;
		letters[0] = *flipped;
		letters[1] = arguments[4][0];
		pthread_create(&thread, NULL, flip, NULL);
		open_often(name, atol(arguments[2]), 1);
	} else if (!strcmp(what, "ia32") && count == 3) {
#ifdef __x86_64__
		char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
		long result;

		if (low == MAP_FAILED)
			return 1;
		strcpy(low, arguments[2]);
		/* 295 is openat in the table of 32 bits, and preadv in that of 64. */
		asm volatile("int $0x80"
			     : "=a"(result)
			     : "a"(295), "b"(-100), "c"(low), "d"(0), "S"(0)
			     : "memory", "r8", "r9", "r10", "r11");
		return result < 0;
#else
		return 1;
#endif
	} else if (!strcmp(what, "socketcall") && count == 2) {
#ifdef __x86_64__
		/* A socket and a connect to 127.0.0.1:9, both by the one call of the table of 32 bits. */
		unsigned *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
		static const unsigned char address[16] = { 2, 0, 0, 9, 127, 0, 0, 1 };
		long fd, result;

		if (low == MAP_FAILED)
			return 1;
		low[0] = 2;
		low[1] = 1;
		low[2] = 0;
		asm volatile("int $0x80" : "=a"(fd) : "a"(102), "b"(1), "c"(low) : "memory", "r8", "r9", "r10", "r11");
		memcpy(low + 8, address, sizeof(address));
		low[0] = (unsigned)fd;
		low[1] = (unsigned)(unsigned long)(low + 8);
		low[2] = sizeof(address);
		asm volatile("int $0x80" : "=a"(result) : "a"(102), "b"(3), "c"(low) : "memory", "r8", "r9", "r10", "r11");
		return fd < 0;
#else
		return 1;
#endif
	} else if (!strcmp(what, "storm") && count == 3) {
		/* Writes, and some programs and threads in between. */
		int fd = open("/dev/null", O_WRONLY);
		char bytes[80] = "x";

		for (long i = 0; i < atol(arguments[2]); i++) {
			if (i % 4096 == 0) {
				pid_t child = fork();

				if (!child) {
					if (setuid(getuid()))
						_exit(1);
					execl("/bin/true", "true", NULL);
					_exit(1);
				}
				waitpid(child, NULL, 0);
			}
			if (write(fd, bytes, sizeof(bytes)) < 0)
				return 1;
		}
	} else if (!strcmp(what, "connects") && count == 3) {
		connect_often(atol(arguments[2]));
	} else if (!strcmp(what, "named") && count == 3) {
		return named_calls(arguments[2]);
	} else if (!strcmp(what, "sockets") && count == 3) {
		return sockets(arguments[2]);
	} else if (!strcmp(what, "uring") && count == 2) {
		/* Without its parameters the call fails, and has happened all the same. */
		syscall(SYS_io_uring_setup, 1, NULL);
	} else {
		fprintf(stderr, "calls opens|flip|ia32|socketcall|storm|connects|named|sockets|uring\n");
		return 2;
	}
	exit(0);
}
