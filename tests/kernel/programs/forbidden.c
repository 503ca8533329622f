/* SPDX-License-Identifier: (Apache-2.0 OR MIT) */
/*
 * Does what Falco's rules forbid, where it harms nobody: in mount, network and user-visible places of its own.
 *
 *   forbidden stage CGROUP_PROCS  makes the place, prints "ready PLACE", and reads scenes from standard input until its end
 *
 * A scene is a line of fields with tabs between: flags, parent, process, arguments. The process runs as `/opt/PROCESS`
 * (or as the path that is given) below a parent of that name; its first argument says what it does, and anything that is
 * not known does nothing, as many rules need a name and arguments only. Flags: c in a container, t with a terminal, p as
 * the first process of a PID namespace, u as user 1, e with GLIBC_TUNABLES and HTTP_PROXY. It is linked statically, as
 * its place has no libraries.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOME "/root"
#define FIELDS 16
#define TERMINAL 100 /* descriptors that scenes inherit */
#define CONTAINER 101

static void fail(const char *what)
{
	fprintf(stderr, "forbidden: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void touch(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
	close(fd);
}

/* An address on the loopback interface of this network namespace, so that connections to it succeed. */
static void address(const char *name, const char *text)
{
	struct ifreq request = { 0 };
	struct sockaddr_in *a = (struct sockaddr_in *)&request.ifr_addr;
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	strcpy(request.ifr_name, name);
	a->sin_family = AF_INET;
	inet_pton(AF_INET, text, &a->sin_addr);
	if (ioctl(s, SIOCSIFADDR, &request))
		fail(text);
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	ioctl(s, SIOCSIFFLAGS, &request);
	close(s);
}

static void listen_on(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((unsigned short)port) };
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(s, (struct sockaddr *)&a, sizeof(a)) || listen(s, 64))
		fail("listen");
}

/* A root of its own with the files that rules watch. */
static void make_place(const char *self, char *place)
{
	static const char *const folders[] = { "/etc", "/etc/cron.d", "/etc/apt", "/etc/apt/sources.list.d", HOME, HOME "/.ssh", "/usr", "/usr/bin", "/boot",
					       "/dev", "/dev/shm", "/var", "/var/log", "/var/lib", "/var/lib/rpm", "/opt", "/proc", "/host", "/srv", "/tmp",
					       "/old", "/layer", "/layer/lower", "/layer/rest", "/layer/rest/upper", "/layer/rest/work", "/layer/all" };
	static const char *const files[] = { "/etc/shadow", "/etc/passwd", "/etc/sudoers", HOME "/.bashrc", HOME "/.bash_history", HOME "/.ssh/id", "/srv/secret",
					     "/var/log/auth.log", "/usr/bin/tool", "/host/secret", "/dev/sdz", "/srv/liblzma.so.5.6.0", "/srv/file" };
	char path[512];
	int from, to;
	char bytes[65536];
	ssize_t length;

	if (unshare(CLONE_NEWNS | CLONE_NEWNET) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		fail("namespaces");
	if (!mkdtemp(place) || mount("place", place, "tmpfs", 0, NULL))
		fail(place);
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		snprintf(path, sizeof(path), "%s%s", place, folders[i]);
		if (mkdir(path, 0755))
			fail(path);
	}
	snprintf(path, sizeof(path), "%s/opt/self", place);
	from = open(self, O_RDONLY);
	to = open(path, O_WRONLY | O_CREAT, 0755);
	while ((length = read(from, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)length) != length)
			fail(path);
	close(from);
	close(to);
	snprintf(path, sizeof(path), "%s/proc", place);
	if (mount("/proc", path, NULL, MS_BIND | MS_REC, NULL))
		fail(path);
	snprintf(path, sizeof(path), "%s/old", place);
	if (syscall(SYS_pivot_root, place, path) || chdir("/") || umount2("/old", MNT_DETACH))
		fail("pivot_root");
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		touch(files[i], "secret\n");
	mknod("/dev/null", S_IFCHR | 0666, 1 << 8 | 3);
	/* Without overlayfs one scene is less. */
	if (!mount("overlay", "/layer/all", "overlay", 0, "lowerdir=/layer/lower,upperdir=/layer/rest/upper,workdir=/layer/rest/work"))
		link("/opt/self", "/opt/with-layers");
	address("lo", "127.0.0.1");
	address("lo:1", "192.0.2.1");
	address("lo:2", "169.254.169.254");
	listen_on(443);
	listen_on(80);
}

static int connect_to(const char *host, int port, int kind)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((unsigned short)port) };
	int s = socket(AF_INET, kind, 0);

	inet_pton(AF_INET, host, &a.sin_addr);
	connect(s, (struct sockaddr *)&a, sizeof(a));
	return s;
}

/* What a process does; its arguments are its own. */
static void act(char **a)
{
	const char *what = a[1] ? a[1] : "", *one = a[1] && a[2] ? a[2] : "", *two = *one && a[3] ? a[3] : "";

#define IS(name) (!strcmp(what, name))
	if (IS("read")) {
		open(one, O_RDONLY);
	} else if (IS("late-read")) {
		struct timespec wait = { 5, 300000000 };

		nanosleep(&wait, NULL); /* a rule is about processes that are older than 5 s */
		open(one, O_RDONLY);
	} else if (IS("write")) {
		open(one, O_WRONLY | O_CREAT, 0644);
	} else if (IS("truncate")) {
		open(one, O_WRONLY | O_TRUNC);
	} else if (IS("symlink")) {
		symlink(one, two);
	} else if (IS("link")) {
		link(one, two);
	} else if (IS("rename")) {
		rename(one, two);
	} else if (IS("mkdir")) {
		mkdir(one, 0755);
	} else if (IS("unlink")) {
		unlink(one);
	} else if (IS("setuid-bit")) {
		chmod(one, 04755);
	} else if (IS("packet-socket")) {
		socket(AF_PACKET, SOCK_RAW, 0);
	} else if (IS("redirect")) {
		dup2(connect_to("127.0.0.1", 80, SOCK_STREAM), 1);
	} else if (IS("module")) {
		syscall(SYS_init_module, "", 0, "");
	} else if (IS("attach")) {
		pid_t child = fork();

		if (!child) {
			pause();
			_exit(0);
		}
		ptrace(PTRACE_ATTACH, child, NULL, NULL);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	} else if (IS("traceme")) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		_exit(0);
	} else if (IS("setns")) {
		setns(open("/proc/self/ns/uts", O_RDONLY), CLONE_NEWUTS);
	} else if (IS("unshare")) {
		unshare(CLONE_NEWUTS);
	} else if (IS("setuid")) {
		syscall(SYS_setuid, atoi(one));
	} else if (IS("connect")) {
		connect_to(one, atoi(two), SOCK_STREAM);
	} else if (IS("connect-udp")) {
		connect_to(one, atoi(two), SOCK_DGRAM);
	} else if (IS("bpf")) {
		char attr[128] = { 0 };

		syscall(SYS_bpf, 5, attr, sizeof(attr));
	} else if (IS("userfaultfd")) {
		syscall(SYS_userfaultfd, 0);
	}
}

/* The program itself in memory, executed from there as `name`. */
static void run_from_memory(char *name)
{
	char bytes[65536], *arguments[] = { name, NULL }, *environment[] = { NULL };
	int memory = (int)syscall(SYS_memfd_create, name, 0), from = open("/opt/self", O_RDONLY);
	ssize_t length;

	while ((length = read(from, bytes, sizeof(bytes))) > 0)
		if (write(memory, bytes, (size_t)length) != length)
			_exit(1);
	syscall(SYS_execveat, memory, "", arguments, environment, AT_EMPTY_PATH);
	_exit(1);
}

/* The parent of a scene: `then FLAGS PROCESS ARGUMENT...` */
static int parent(char **a)
{
	const char *flags = a[2];
	char *path = a[3], *environment[] = { NULL, NULL, NULL }, name[256];
	pid_t child;
	int status = 0;

	if (strchr(flags, 'p') && unshare(CLONE_NEWPID))
		fail("a PID namespace");
	child = fork();
	if (!child) {
		if (strchr(flags, 't')) {
			setsid();
			ioctl(TERMINAL, TIOCSCTTY, 1);
		} else {
			setsid();
		}
		if (strchr(flags, 'e')) {
			environment[0] = "GLIBC_TUNABLES=glibc.malloc.mxfast=1";
			environment[1] = "HTTP_PROXY=http://192.0.2.1";
		}
		if (strchr(flags, 'u') && (setresgid(1, 1, 1) || setresuid(1, 1, 1)))
			fail("user 1");
		if (strchr(flags, 'm'))
			run_from_memory(path);
		if (*path == '/')
			snprintf(name, sizeof(name), "%s", path);
		else
			snprintf(name, sizeof(name), "/opt/%s", path);
		a[3] = name;
		execve(name, a + 3, environment);
		fail(name);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* Runs a scene, and does not wait for it: one of them waits for 5 s. */
static void play(char *line)
{
	char *fields[FIELDS + 2] = { 0 }, *arguments[FIELDS + 3] = { 0 }, *environment[] = { NULL }, path[256];
	int count = 0;

	for (char *field = strtok(line, "\t\n"); field && count < FIELDS; field = strtok(NULL, "\t\n"))
		fields[count++] = field;
	if (count < 3)
		return;
	snprintf(path, sizeof(path), "/opt/%s", fields[1]);
	link("/opt/self", path);
	arguments[0] = path;
	arguments[1] = "then";
	arguments[2] = fields[0];
	for (int i = 2; i < count; i++)
		arguments[i + 1] = fields[i];
	if (*fields[2] == '/') {
		/* Hard links end at the borders of a file system. */
		char *from = "/opt/self";
		int in = open(from, O_RDONLY), out = open(fields[2], O_WRONLY | O_CREAT, 0755);
		char bytes[65536];
		ssize_t length;

		while ((length = read(in, bytes, sizeof(bytes))) > 0)
			if (write(out, bytes, (size_t)length) != length)
				break;
		close(in);
		close(out);
	} else {
		char process[256];

		snprintf(process, sizeof(process), "/opt/%s", fields[2]);
		link("/opt/self", process);
	}
	if (!fork()) {
		if (strchr(fields[0], 'c') && write(CONTAINER, "0", 1) != 1)
			fail("the control group");
		close(CONTAINER);
		execve(path, arguments, environment);
		fail(path);
	}
}

static int stage(const char *self, const char *procs)
{
	char line[4096], place[] = "/tmp/gabion-forbidden-XXXXXX";
	int master = posix_openpt(O_RDWR | O_NOCTTY), terminal, root, group = open(procs, O_WRONLY);

	if (group < 0 || dup2(group, CONTAINER) < 0)
		fail(procs);
	/* The control group of the tests themselves may have the name of a container. */
	snprintf(line, sizeof(line), "%.*s/../cgroup.procs", (int)(strrchr(procs, '/') - procs), procs);
	root = open(line, O_WRONLY);
	if (root < 0 || write(root, "0", 1) != 1)
		fail(line);
	close(root);
	if (master < 0 || unlockpt(master) || (terminal = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY)) < 0 || dup2(terminal, TERMINAL) < 0)
		fail("a terminal");
	fcntl(group, F_SETFD, FD_CLOEXEC);
	fcntl(master, F_SETFD, FD_CLOEXEC);
	fcntl(terminal, F_SETFD, FD_CLOEXEC);
	make_place(self, place);
	printf("ready %s\n", place);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		play(line);
		/* One scene after the other, but for the one that waits. */
		if (!strstr(line, "late-read"))
			usleep(20000);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}

int main(int count, char **arguments)
{
	if (count == 3 && !strcmp(arguments[1], "stage") && *arguments[2] == '/')
		return stage(arguments[0], arguments[2]);
	if (count > 3 && !strcmp(arguments[1], "then"))
		return parent(arguments);
	act(arguments);
	return 0;
}
