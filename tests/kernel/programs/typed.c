/* SPDX-License-Identifier: (Apache-2.0 OR MIT) */
/*
 * Makes each system call that has an event type of its own, with known arguments, and prints what its event must hold:
 * "CALL PARAMETER=VALUE ...". Calls that would change the machine are made so that they fail; a failed call is recorded
 * with the same arguments.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long result;

/* Makes a call; its result, or the negative number of its error, is `result`. */
#define DO(...) (result = syscall(__VA_ARGS__), result = result == -1 ? -(long)errno : result)

static void say(const char *call, const char *format, ...)
{
	va_list list;

	printf("%s res=%ld ", call, result);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
}

/* The same for calls whose first parameter is the new descriptor. */
static void say_fd(const char *call, const char *format, ...)
{
	va_list list;

	printf("%s fd=%ld ", call, result);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
}

static char page[4096] __attribute__((aligned(4096)));
#define NOWHERE "/gabion-nowhere/x"

static void files(void)
{
	char bytes[16] = "hello";
	struct iovec vector[2] = { { bytes, 2 }, { bytes + 2, 3 } }, in[2] = { { page, 2 }, { page + 2, 3 } };
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
	struct stat about;
	long fd, folder, copy;
	off_t offset = 1, other = 2;
	unsigned long size = 5;

	memcpy(page, NOWHERE, sizeof(NOWHERE));
	DO(SYS_open, "work", O_RDWR | O_CREAT | O_TRUNC, 0640);
	fd = result;
	say_fd("open", "name=work flags=%d mode=%d", 3 | 4 | 256 | 16384, 0640);
	DO(SYS_openat, AT_FDCWD, "work", O_RDWR | O_APPEND, 0);
	copy = result;
	fstat((int)copy, &about);
	say_fd("openat", "dirfd=-100 name=work flags=%d mode=0 ino=%lu", 3 | 8, (unsigned long)about.st_ino);
	DO(SYS_openat2, AT_FDCWD, "work", &how, sizeof(how));
	say_fd("openat2", "dirfd=-100 name=work flags=%d resolve=4 mode=0", 1 | 4096);
	DO(SYS_creat, "made", 0600);
	say_fd("creat", "name=made mode=%d", 0600);
	DO(SYS_open, ".", O_RDONLY | O_DIRECTORY, 0);
	folder = result;
	say_fd("open", "name=. flags=%d mode=0", 1 | 1024);
	DO(SYS_write, fd, bytes, 5);
	say("write", "fd=%ld size=5 data=hello", fd);
	DO(SYS_pwrite64, fd, bytes, 5, 3);
	say("pwrite", "fd=%ld size=5 data=hello pos=3", fd);
	DO(SYS_writev, fd, vector, 2);
	say("writev", "fd=%ld size=5 data=hello", fd);
	DO(SYS_pwritev, fd, vector, 2, 0, 0);
	say("pwritev", "fd=%ld size=5 data=hello pos=0", fd);
	DO(SYS_lseek, fd, 0, SEEK_SET);
	say("lseek", "fd=%ld offset=0 whence=0", fd);
	DO(SYS_read, fd, page + 64, 5);
	say("read", "fd=%ld size=5 data=hello", fd);
	DO(SYS_pread64, fd, page + 64, 5, 0);
	say("pread", "fd=%ld size=5 data=hello pos=0", fd);
	DO(SYS_readv, fd, in, 2);
	say("readv", "fd=%ld size=5", fd);
	DO(SYS_preadv, fd, in, 2, 0, 0);
	say("preadv", "fd=%ld size=5 data=hello pos=0", fd);
	DO(SYS_sendfile, copy, fd, &offset, size);
	say("sendfile", "out_fd=%ld in_fd=%ld size=5", copy, fd);
	offset = 1;
	DO(SYS_copy_file_range, fd, &offset, copy, &other, size, 0);
	say("copy_file_range", "fdin=%ld fdout=%ld len=5", fd, copy);
	DO(SYS_splice, fd, NULL, copy, NULL, size, 1);
	say("splice", "fd_in=%ld fd_out=%ld size=5 flags=1", fd, copy);
	DO(SYS_stat, "work", &about);
	say("stat", "path=work");
	DO(SYS_lstat, "work", &about);
	say("lstat", "path=work");
	DO(SYS_fstat, fd, &about);
	say("fstat", "fd=%ld", fd);
	DO(SYS_newfstatat, AT_FDCWD, "work", &about, AT_SYMLINK_NOFOLLOW);
	say("newfstatat", "dirfd=-100 path=work flags=%d", 256);
	DO(SYS_access, "work", R_OK | W_OK);
	say("access", "name=work mode=6");
	DO(SYS_mkdir, "folder", 0755);
	say("mkdir", "path=folder mode=%d", 0755);
	DO(SYS_mkdirat, folder, "folder2", 0700);
	say("mkdirat", "dirfd=%ld path=folder2 mode=%d", folder, 0700);
	DO(SYS_rmdir, "folder");
	say("rmdir", "path=folder");
	DO(SYS_unlinkat, folder, "folder2", AT_REMOVEDIR);
	say("unlinkat", "dirfd=%ld name=folder2 flags=512", folder);
	DO(SYS_link, "work", "hard");
	say("link", "oldpath=work newpath=hard");
	DO(SYS_linkat, folder, "work", folder, "hard2", AT_SYMLINK_FOLLOW);
	say("linkat", "olddir=%ld oldpath=work newdir=%ld newpath=hard2 flags=1024", folder, folder);
	DO(SYS_symlink, "work", "soft");
	say("symlink", "target=work linkpath=soft");
	DO(SYS_symlinkat, "work", folder, "soft2");
	say("symlinkat", "target=work linkdirfd=%ld linkpath=soft2", folder);
	DO(SYS_rename, "hard", "hard3");
	say("rename", "oldpath=hard newpath=hard3");
	DO(SYS_renameat, folder, "hard3", folder, "hard4");
	say("renameat", "olddirfd=%ld oldpath=hard3 newdirfd=%ld newpath=hard4", folder, folder);
	DO(SYS_renameat2, folder, "hard4", folder, "hard5", 1);
	say("renameat2", "olddirfd=%ld oldpath=hard4 newdirfd=%ld newpath=hard5 flags=1", folder, folder);
	DO(SYS_unlink, "hard5");
	say("unlink", "path=hard5");
	DO(SYS_chmod, "work", 0600);
	say("chmod", "filename=work mode=%d", 0600);
	DO(SYS_fchmod, fd, 0644);
	say("fchmod", "fd=%ld mode=%d", fd, 0644);
	DO(SYS_fchmodat, AT_FDCWD, "work", 0600);
	say("fchmodat", "dirfd=-100 filename=work mode=%d", 0600);
	DO(SYS_chown, NOWHERE, 3, 4);
	say("chown", "path=" NOWHERE " uid=3 gid=4");
	DO(SYS_lchown, NOWHERE, 3, 4);
	say("lchown", "path=" NOWHERE " uid=3 gid=4");
	DO(SYS_fchown, -1, 3, 4);
	say("fchown", "fd=-1 uid=3 gid=4");
	DO(SYS_fchownat, AT_FDCWD, NOWHERE, 3, 4, AT_SYMLINK_NOFOLLOW);
	say("fchownat", "dirfd=-100 pathname=" NOWHERE " uid=3 gid=4 flags=1024");
	DO(SYS_mknod, "node", S_IFIFO | 0600, 0);
	say("mknod", "path=node mode=%d dev=0", S_IFIFO | 0600);
	DO(SYS_mknodat, AT_FDCWD, "node2", S_IFIFO | 0600, 0);
	say("mknodat", "dirfd=-100 path=node2 mode=%d dev=0", S_IFIFO | 0600);
	DO(SYS_getdents, folder, page, sizeof(page));
	say("getdents", "fd=%ld", folder);
	DO(SYS_getdents64, folder, page, sizeof(page));
	say("getdents64", "fd=%ld", folder);
	DO(SYS_flock, fd, LOCK_SH | LOCK_NB);
	say("flock", "fd=%ld operation=5", fd);
	DO(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
	say("fcntl", "fd=%ld cmd=3 arg=1", fd);
	DO(SYS_ioctl, fd, 0x1234, 7);
	say("ioctl", "fd=%ld request=%d argument=7", fd, 0x1234);
	DO(SYS_dup, fd);
	say("dup", "oldfd=%ld", fd);
	DO(SYS_dup2, fd, 90);
	say("dup2", "oldfd=%ld newfd=90", fd);
	DO(SYS_dup3, fd, 91, O_CLOEXEC);
	say("dup3", "oldfd=%ld newfd=91 flags=4096", fd);
	DO(SYS_close, 90);
	say("close", "fd=90");
	DO(SYS_close_range, 91, 91, 0);
	say("close_range", "first=91 last=91 flags=0");
	DO(SYS_chdir, ".");
	say("chdir", "path=.");
	DO(SYS_fchdir, folder);
	say("fchdir", "fd=%ld", folder);
	DO(SYS_getcwd, page, sizeof(page));
	say("getcwd", "path=%s", page);
	DO(SYS_chroot, NOWHERE);
	say("chroot", "path=" NOWHERE);
	DO(SYS_mount, "dev", NOWHERE, "tmpfs", MS_RDONLY | MS_NOSUID, NULL);
	say("mount", "dev=dev dir=" NOWHERE " type=tmpfs flags=3");
	DO(SYS_umount2, NOWHERE, MNT_DETACH);
	say("umount2", "name=" NOWHERE " flags=2");
	DO(SYS_open_by_handle_at, -1, page, O_RDONLY);
	say_fd("open_by_handle_at", "mountfd=-1 flags=1");
	DO(SYS_fsconfig, -1, 1, "key", "value", 0);
	say("fsconfig", "fd=-1 cmd=1 key=key value_charbuf=value aux=0");
	DO(SYS_quotactl, 0x80000100, "special", 5, 0);
	say("quotactl", "special=special cmd=128 type=1 id=5");
}

static void memory(void)
{
	struct timespec span = { 0, 1000 };
	struct sembuf semaphores[2] = { { 1, -2, IPC_NOWAIT }, { 3, 4, 0 } };
	void *map;

	DO(SYS_brk, 0);
	say("brk", "addr=0");
	DO(SYS_mmap, NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	map = (void *)result;
	say("mmap", "addr=0 length=8192 prot=3 flags=10 fd=-1 offset=0");
	DO(SYS_mprotect, map, 4096, PROT_READ);
	say("mprotect", "addr=%lu length=4096 prot=1", (unsigned long)map);
	DO(SYS_mlock, map, 4096);
	say("mlock", "addr=%lu len=4096", (unsigned long)map);
	DO(SYS_mlock2, map, 4096, 1);
	say("mlock2", "addr=%lu len=4096 flags=1", (unsigned long)map);
	DO(SYS_munlock, map, 4096);
	say("munlock", "addr=%lu len=4096", (unsigned long)map);
	DO(SYS_mlockall, 16);
	say("mlockall", "flags=16");
	DO(SYS_munlockall);
	say("munlockall", "");
	DO(SYS_munmap, map, 8192);
	say("munmap", "addr=%lu length=8192", (unsigned long)map);
	DO(SYS_futex, page, FUTEX_WAKE, 3, NULL, NULL, 0);
	say("futex", "addr=%lu op=1 val=3", (unsigned long)page);
	DO(SYS_nanosleep, &span, NULL);
	say("nanosleep", "interval=1000");
	DO(SYS_semget, 77, -1, 0);
	say("semget", "key=77 nsems=-1 semflg=0");
	DO(SYS_semop, -1, semaphores, 2);
	say("semop", "nsops=2 sem_num_0=1 sem_op_0=-2 sem_flg_0=%d sem_num_1=3 sem_op_1=4 semid=-1", IPC_NOWAIT);
	DO(SYS_semctl, -1, 2, IPC_RMID, 9);
	say("semctl", "semid=-1 semnum=2 cmd=4 val=9");
	DO(SYS_memfd_create, "memory", 1);
	say_fd("memfd_create", "name=memory flags=1");
}

static void descriptors(void)
{
	int pair[2];
	struct pollfd polled[2] = { { 0, POLLIN, 0 }, { 1, POLLOUT, 0 } };
	struct timespec now = { 0, 0 };
	struct epoll_event found[4];
	unsigned char params[128] = { 0 };
	uint32_t mask[2] = { 2, 0 };
	long fd;

	DO(SYS_pipe, pair);
	say("pipe", "fd1=%d fd2=%d", pair[0], pair[1]);
	DO(SYS_pipe2, pair, O_CLOEXEC);
	say("pipe2", "fd1=%d fd2=%d flags=4096", pair[0], pair[1]);
	DO(SYS_eventfd, 5);
	say("eventfd", "initval=5 flags=0");
	DO(SYS_eventfd2, 5, O_NONBLOCK);
	say("eventfd2", "initval=5 flags=64");
	DO(SYS_signalfd, -1, mask, 8);
	say("signalfd", "fd=-1 flags=0");
	DO(SYS_signalfd4, -1, mask, 8, O_CLOEXEC);
	say("signalfd4", "fd=-1 flags=4096");
	DO(SYS_timerfd_create, CLOCK_MONOTONIC, 0);
	say("timerfd_create", "clockid=1 flags=0");
	DO(SYS_inotify_init);
	say("inotify_init", "flags=0");
	DO(SYS_inotify_init1, O_CLOEXEC);
	say("inotify_init1", "flags=4096");
	DO(SYS_epoll_create, 7);
	fd = result;
	say("epoll_create", "size=7");
	DO(SYS_epoll_create1, O_CLOEXEC);
	say("epoll_create1", "flags=1");
	DO(SYS_epoll_wait, fd, found, 4, 0);
	say("epoll_wait", "maxevents=4");
	DO(SYS_poll, polled, 2, 0);
	say("poll", "timeout=0");
	DO(SYS_ppoll, polled, 2, &now, NULL, 0);
	say("ppoll", "timeout=0");
	DO(SYS_select, 0, NULL, NULL, NULL, &now);
	say("select", "");
	DO(SYS_userfaultfd, O_CLOEXEC | 1);
	say("userfaultfd", "flags=4096");
	DO(SYS_pidfd_open, getpid(), 0);
	fd = result;
	say_fd("pidfd_open", "pid=%d flags=0", getpid());
	DO(SYS_pidfd_getfd, fd, 1, 0);
	say_fd("pidfd_getfd", "pid_fd=%ld target_fd=1 flags=0", fd);
	DO(SYS_io_uring_setup, 0, params);
	say("io_uring_setup", "entries=0 flags=0");
	DO(SYS_io_uring_enter, -1, 1, 2, 1, NULL, 0);
	say("io_uring_enter", "fd=-1 to_submit=1 min_complete=2 flags=1");
	DO(SYS_io_uring_register, -1, 4, NULL, 3);
	say("io_uring_register", "fd=-1 opcode=4 arg=0 nr_args=3");
	DO(SYS_bpf, 99, NULL, 0);
	say_fd("bpf", "cmd=99");
}

static void sockets(void)
{
	struct sockaddr_in server = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) }, peer;
	struct sockaddr_un path = { .sun_family = AF_UNIX, .sun_path = NOWHERE };
	socklen_t bytes = sizeof(server), length = 4;
	struct iovec vector = { (char *)"data", 4 }, in = { page, 16 };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 }, answer = { .msg_iov = &in, .msg_iovlen = 1 };
	struct mmsghdr several = { .msg_hdr = message }, answers = { .msg_hdr = answer };
	int pair[2], value = 1, port, local, closed;
	long listener, client, accepted, datagram;

	DO(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	listener = result;
	say_fd("socket", "domain=2 type=1 proto=6 flags=4096");
	DO(SYS_setsockopt, listener, SOL_SOCKET, SO_REUSEADDR, &value, 4);
	say("setsockopt", "fd=%ld level=1 optname=2 optlen=4", listener);
	DO(SYS_getsockopt, listener, SOL_SOCKET, SO_REUSEADDR, &value, &length);
	say("getsockopt", "fd=%ld level=1 optname=2 optlen=4", listener);
	DO(SYS_bind, listener, &server, sizeof(server));
	say("bind", "fd=%ld addr=127.0.0.1:0", listener);
	DO(SYS_listen, listener, 5);
	say("listen", "fd=%ld backlog=5", listener);
	DO(SYS_getsockname, listener, &server, &bytes);
	say("getsockname", "-");
	port = ntohs(server.sin_port);
	DO(SYS_socket, AF_INET, SOCK_STREAM, 0);
	client = result;
	say_fd("socket", "domain=2 type=1 proto=0 flags=0");
	DO(SYS_connect, client, &server, sizeof(server));
	bytes = sizeof(peer);
	getsockname((int)client, (void *)&peer, &bytes);
	local = ntohs(peer.sin_port);
	say("connect", "fd=%ld addr=127.0.0.1:%d tuple=127.0.0.1:%d->127.0.0.1:%d", client, port, local, port);
	DO(SYS_accept, listener, NULL, NULL);
	accepted = result;
	say_fd("accept", "tuple=127.0.0.1:%d->127.0.0.1:%d queuemax=5", local, port);
	DO(SYS_accept4, -1, NULL, NULL, SOCK_CLOEXEC);
	say_fd("accept4", "-");
	DO(SYS_getpeername, client, &peer, &bytes);
	say("getpeername", "-");
	DO(SYS_sendto, client, "data", 4, 0, NULL, 0);
	say("sendto", "fd=%ld size=4 data=data tuple=127.0.0.1:%d->127.0.0.1:%d", client, local, port);
	DO(SYS_recvfrom, accepted, page, 16, 0, NULL, NULL);
	say("recvfrom", "fd=%ld size=16 data=data tuple=127.0.0.1:%d->127.0.0.1:%d", accepted, local, port);
	DO(SYS_sendmsg, client, &message, 0);
	say("sendmsg", "fd=%ld size=4 data=data tuple=127.0.0.1:%d->127.0.0.1:%d", client, local, port);
	DO(SYS_recvmsg, accepted, &answer, 0);
	say("recvmsg", "fd=%ld size=16 data=data tuple=127.0.0.1:%d->127.0.0.1:%d", accepted, local, port);
	DO(SYS_sendmmsg, client, &several, 1, 0);
	say("sendmmsg", "fd=%ld size=4 data=data", client);
	DO(SYS_recvmmsg, accepted, &answers, 1, 0, NULL);
	say("recvmmsg", "fd=%ld size=16 data=data", accepted);
	DO(SYS_shutdown, client, SHUT_WR);
	say("shutdown", "fd=%ld how=1", client);
	DO(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pair);
	say("socketpair", "fd1=%d fd2=%d domain=1 type=1 proto=0", pair[0], pair[1]);
	DO(SYS_socket, AF_INET, SOCK_DGRAM, 0);
	datagram = result;
	say_fd("socket", "domain=2 type=2 proto=0");
	DO(SYS_sendto, datagram, "data", 4, 0, &server, sizeof(server));
	bytes = sizeof(peer);
	getsockname((int)datagram, (void *)&peer, &bytes);
	say("sendto", "fd=%ld size=4 data=data tuple=0.0.0.0:%d->127.0.0.1:%d", datagram, ntohs(peer.sin_port), port);
	DO(SYS_connect, pair[0], &path, sizeof(path));
	say("connect", "fd=%d addr=" NOWHERE, pair[0]);
	/* A port on which nobody listens: the kernel leaves the socket without an address of its own. */
	closed = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
	bytes = sizeof(peer);
	peer = server;
	peer.sin_port = 0;
	bind(closed, (void *)&peer, sizeof(peer));
	getsockname(closed, (void *)&peer, &bytes);
	client = syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
	DO(SYS_connect, client, &peer, sizeof(peer));
	say("connect", "fd=%ld addr=127.0.0.1:%d tuple=-", client, ntohs(peer.sin_port));
}

static void processes(void)
{
	struct __user_cap_header_struct head = { 0x20080522, 0 };
	struct __user_cap_data_struct sets[2] = { { 0 }, { 0 } };
	struct rlimit limit = { 100, 200 };
	struct iovec local = { (char *)"data", 4 };
	unsigned ids[3];
	pid_t child;

	DO(SYS_getuid);
	printf("getuid uid=%ld\n", result);
	DO(SYS_geteuid);
	printf("geteuid euid=%ld\n", result);
	DO(SYS_getgid);
	printf("getgid gid=%ld\n", result);
	DO(SYS_getegid);
	printf("getegid egid=%ld\n", result);
	DO(SYS_getresuid, ids, ids + 1, ids + 2);
	say("getresuid", "ruid=%u euid=%u suid=%u", ids[0], ids[1], ids[2]);
	DO(SYS_getresgid, ids, ids + 1, ids + 2);
	say("getresgid", "rgid=%u egid=%u sgid=%u", ids[0], ids[1], ids[2]);
	DO(SYS_setuid, getuid());
	say("setuid", "uid=%u", getuid());
	DO(SYS_setgid, getgid());
	say("setgid", "gid=%u", getgid());
	DO(SYS_setreuid, getuid(), -1);
	say("setreuid", "ruid=%u", getuid());
	DO(SYS_setregid, getgid(), -1);
	say("setregid", "rgid=%u", getgid());
	DO(SYS_setresuid, getuid(), getuid(), getuid());
	say("setresuid", "ruid=%u euid=%u suid=%u", getuid(), getuid(), getuid());
	DO(SYS_setresgid, getgid(), getgid(), getgid());
	say("setresgid", "rgid=%u egid=%u sgid=%u", getgid(), getgid(), getgid());
	DO(SYS_kill, getpid(), 0);
	say("kill", "pid=%d sig=0", getpid());
	DO(SYS_tkill, getpid(), 0);
	say("tkill", "tid=%d sig=0", getpid());
	DO(SYS_tgkill, getpid(), getpid(), 0);
	say("tgkill", "pid=%d tid=%d sig=0", getpid(), getpid());
	DO(SYS_getrlimit, RLIMIT_NOFILE, &limit);
	say("getrlimit", "resource=7 cur=%ld max=%ld", (long)limit.rlim_cur, (long)limit.rlim_max);
	limit.rlim_cur = limit.rlim_max + 1;
	DO(SYS_setrlimit, RLIMIT_NOFILE, &limit);
	say("setrlimit", "resource=7 cur=%ld max=%ld", (long)limit.rlim_cur, (long)limit.rlim_max);
	DO(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
	say("prlimit", "pid=0 resource=7 oldcur=%ld oldmax=%ld", (long)limit.rlim_cur, (long)limit.rlim_max);
	DO(SYS_ptrace, PTRACE_ATTACH, 0x7fffffff, 0, 0);
	say("ptrace", "pid=%d request=11", 0x7fffffff);
	DO(SYS_setns, -1, CLONE_NEWNET);
	say("setns", "fd=-1 nstype=16");
	DO(SYS_unshare, 0);
	say("unshare", "flags=0");
	DO(SYS_setpgid, 0, 0);
	say("setpgid", "pid=0 pgid=0");
	DO(SYS_setsid);
	say("setsid", "");
	DO(SYS_seccomp, 99, 7, NULL);
	say("seccomp", "op=99 flags=7");
	DO(SYS_capset, &head, NULL);
	say("capset", "-");
	DO(SYS_prctl, PR_SET_NAME, "renamed", 0, 0, 0);
	say("prctl", "option=15 arg2_str=renamed");
	DO(SYS_prctl, PR_SET_KEEPCAPS, 0, 0, 0, 0);
	say("prctl", "option=8 arg2_int=0");
	DO(SYS_init_module, "image", 5, "options");
	say("init_module", "length=5 img=image uargs=options");
	DO(SYS_finit_module, -1, "options", 1);
	say("finit_module", "fd=-1 uargs=options flags=1");
	DO(SYS_delete_module, "gabion_nowhere", O_NONBLOCK);
	say("delete_module", "name=gabion_nowhere flags=2");
	DO(SYS_process_vm_readv, 0x7fffffff, &local, 1, &local, 1, 0);
	say("process_vm_readv", "pid=%d", 0x7fffffff);
	DO(SYS_process_vm_writev, 0x7fffffff, &local, 1, &local, 1, 0);
	say("process_vm_writev", "pid=%d", 0x7fffffff);
	DO(SYS_keyctl, 999, 1, 2, 3, 4);
	say("keyctl", "operation=999");
	DO(SYS_execve, NOWHERE, (char *[]){ "a", NULL }, NULL);
	say("execve", "filename=" NOWHERE);
	DO(SYS_execveat, -1, NOWHERE, (char *[]){ "a", NULL }, NULL, 0);
	say("execveat", "-");
	fflush(stdout);
	child = (pid_t)syscall(SYS_fork);
	if (!child)
		_exit(0);
	result = child;
	waitpid(child, NULL, 0);
	say("fork", "flags=0 tid=%d pid=%d", getpid(), getpid());
	fflush(stdout);
	child = vfork();
	if (!child)
		_exit(0);
	result = child;
	waitpid(child, NULL, 0);
	say("vfork", "tid=%d pid=%d", getpid(), getpid());
	fflush(stdout);
	child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
	if (!child)
		_exit(0);
	result = child;
	waitpid(child, NULL, 0);
	say("clone", "flags=0 tid=%d pid=%d", getpid(), getpid());
	DO(SYS_clone3, NULL, 0);
	say("clone3", "tid=%d pid=%d", getpid(), getpid());
	(void)sets;
}

int main(int count, char **arguments)
{
	static char buffer[1 << 16];

	if (count != 2 || chdir(arguments[1]))
		return 2;
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	files();
	memory();
	descriptors();
	sockets();
	processes();
	return 0;
}
