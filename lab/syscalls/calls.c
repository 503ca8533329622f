/* SPDX-License-Identifier: (Apache-2.0 OR MIT) */
/*
 * Programs that make system calls for experiments:
 *   calls getppid|missing|open COUNT   prints the CPU time of a call, in nanoseconds
 *   calls storm SECONDS                forks, vforks, executes and ends as fast as it can
 *   calls files SECONDS FOLDER         opens a file of its own name every 10 ms, and prints when
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double at(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void call(const char *what)
{
	int fd;

	if (!strcmp(what, "getppid")) {
		syscall(SYS_getppid);
	} else if (!strcmp(what, "missing")) {
		syscall(SYS_openat, AT_FDCWD, "/tmp/no-such-file-of-the-lab", O_RDONLY, 0);
	} else {
		fd = (int)syscall(SYS_openat, AT_FDCWD, "/etc/hostname", O_RDONLY, 0);
		if (fd >= 0)
			close(fd);
	}
}

static void storm(double seconds)
{
	char *nothing[] = { "/bin/true", NULL };
	double end = at(CLOCK_MONOTONIC) + seconds * 1e9;
	unsigned long count = 0;

	for (; at(CLOCK_MONOTONIC) < end; count++) {
		pid_t child = count % 3 ? fork() : vfork();

		if (!child) {
			if (count % 3 != 1)
				execv(nothing[0], nothing);
			_exit(0);
		}
		if (child > 0)
			waitpid(child, NULL, 0);
	}
	printf("%lu\n", count);
}

static void files(double seconds, const char *folder)
{
	double end = at(CLOCK_MONOTONIC) + seconds * 1e9;

	for (unsigned long n = 0; at(CLOCK_MONOTONIC) < end; n++) {
		struct timespec pause = { .tv_nsec = 10000000 };
		char name[512];
		int fd;

		snprintf(name, sizeof(name), "%s/canary-%lu", folder, n);
		printf("%lu %.0f\n", n, at(CLOCK_MONOTONIC));
		fd = open(name, O_RDONLY | O_CREAT, 0600);
		if (fd >= 0)
			close(fd);
		unlink(name);
		nanosleep(&pause, NULL);
	}
}

int main(int count, char **arguments)
{
	long calls = count > 2 ? atol(arguments[2]) : 0;

	if (count == 3 && !strcmp(arguments[1], "storm")) {
		storm((double)calls);
	} else if (count == 4 && !strcmp(arguments[1], "files")) {
		files((double)calls, arguments[3]);
	} else if (count == 3) {
		double before, after;

		for (long i = 0; i < calls / 10; i++)
			call(arguments[1]);
		before = at(CLOCK_THREAD_CPUTIME_ID);
		for (long i = 0; i < calls; i++)
			call(arguments[1]);
		after = at(CLOCK_THREAD_CPUTIME_ID);
		printf("%.1f\n", (after - before) / (double)calls);
	} else {
		return 2;
	}
	return 0;
}
