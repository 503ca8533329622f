/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What the programs of system calls and `probe::syscalls` share: control, recipes, records and counters. */
#ifndef GABION_SYSCALLS_H
#define GABION_SYSCALLS_H

#define CALLS 512 /* numbers of system calls, rounded up to a power of two */
#define SOCKETCALL 102 /* by the table of 32 bits: one call for all of sockets */
#define OPS_MAX 40 /* execve has 31 parameters */
#define CPUS_MAX 1024
#define CLASSES 8
#define NAME_BYTES 1024 /* of a name read at the entry; a longer one can't be compared */
#define PATH_BYTES 4096 /* PATH_MAX */
#define ADDRESS_BYTES 128
#define PATH_STEPS 64 /* components and mounts of a path */
#define PATH_COMPONENTS 48

/* A record: this head, then a length of 2 bytes for each value, then the values. */
struct head {
	u64 ts_ns; /* since boot */
	u32 tid;
	u32 sequence; /* of the calls of this thread that change state, shed ones too, or 0 */
	u16 type; /* of the event table */
	u16 cpu;
	u8 values; /* the parameters of the type, then values that have no place in it */
	u8 toctou;
	u8 cause;
	u8 flags;
};

#define FLAG_IA32 1 /* the call used the table of 32 bits */
#define FLAG_PATH_CUT 2 /* the opened path has more components */
#define FLAG_PSEUDO 4 /* the opened file has a name but no path, as memfd */

/* What is known of the name at the entry. */
#define TOCTOU_NONE 0
#define TOCTOU_AGREE 1
#define TOCTOU_MISMATCH 2
#define TOCTOU_EXIT_ONLY 3
#define TOCTOU_ENTER_ONLY 4 /* the name could not be read at the exit */

/* Why there is no enter half. */
#define CAUSE_NOT_ATTACHED 1
#define CAUSE_NOT_SEEN 2 /* the call began before the program was attached */
#define CAUSE_IA32 3
#define CAUSE_NOT_READABLE 4 /* the page of the name was not in memory */
#define CAUSE_TOO_LONG 5
#define CAUSE_OTHER_CALL 6 /* a signal's call came in between */
#define CAUSE_NO_MEMORY 7 /* the kernel had no memory for the enter half */

/* One value of a record and where it comes from. */
struct op {
	u8 kind;
	u8 a;
	u8 b;
	u8 unused;
};

/* How the record of a call is made. The build gives each call with code of its own a number from NATIVE_FIRST on. */
#define BY_RECIPE 0 /* value by value, as the recipe says */
#define ALL_FIXED 1 /* all values are words of `struct scratch` in a fixed size */
#define WITH_MEMORY 2 /* as above, and texts or data that words point to */
#define NATIVE_FIRST 3
/* What `opens.h` distinguishes. */
#define OPEN_OPEN 1
#define OPEN_CREAT 2
#define OPEN_OPENAT 3
#define OPEN_OPENAT2 4
#define FIXED_MAX 8
#define FIXED_CONSTANT 8 /* the constant of the recipe instead of a word */
#define FIXED_SIGNED 0x80 /* the word is a signed number of 32 bits */
#define FIXED_TEXT 0x40 /* the word points to a text */
#define FIXED_DATA 0x20 /* the word points to data; the other byte is the place of the word with its size */

struct recipe {
	u16 type;
	u8 values;
	u8 class;
	u8 changes_state;
	u8 native; /* how the record is made */
	u16 constant;
	u8 fixed[FIXED_MAX][2]; /* for ALL_FIXED: the place of the word with FIXED_SIGNED, and the bytes of it */
	struct op ops[OPS_MAX];
};

struct control {
	u8 interest[CALLS]; /* bit 0: numbers of 64 bits, bit 1: numbers of 32 bits */
	u16 ia32[CALLS]; /* the number of 64 bits of a number of 32 bits, or 0xffff */
	u64 learn; /* the process that calls getppid with this argument is left out */
	u32 own; /* that process */
	u32 snaplen;
	u32 enter_attached; /* whether names are read at the entry */
	u32 exits; /* whether ends of threads are recorded */
	u32 fill_max[CLASSES]; /* bytes of the ring above which a class is shed */
	u32 has_spare; /* whether storage of a task failed, so that enter halves may be in `spare_enters` */
	u32 unused;
};

/* Counters of a CPU. received = passed + shed_ring + shed_size for each class. */
struct counters {
	u64 received[CLASSES];
	u64 passed[CLASSES];
	u64 shed_ring[CLASSES];
	u64 shed_size[CLASSES];
	u64 own; /* calls of our own process, in no class */
	u64 bytes;
	u64 storage_failed; /* enter halves for which there was no memory */
	u64 unmapped_ia32; /* calls of 32 bits without a number of 64 bits */
	u64 shed_state; /* shed records that change state */
	u64 unused[3]; /* up to whole lines of the cache: CPUs must not wait for one another's counters */
};

/* Kinds of values. `a` and `b` are numbers of arguments, sizes or constants, as the comment says. */
enum kind {
	K_EMPTY,
	K_RESULT, /* the result, 8 bytes */
	K_ARGUMENT, /* argument a in b bytes */
	K_SIGNED, /* argument a as a signed number of 32 bits in 8 bytes */
	K_CONSTANT, /* a + 256 b in 2 bytes */
	K_NUMBER, /* the number of the call in 2 bytes */
	K_TEXT, /* the text at argument a */
	K_BYTES_RESULT, /* at argument a, as many bytes as the result, at most snaplen */
	K_BYTES_ARGUMENT, /* at argument a, as many bytes as argument b, at most snaplen */
	K_ADDRESS, /* the address at argument a with length b */
	K_TUPLE_OUT, /* both ends of the socket of argument a; b: argument of an address, or 255 */
	K_TUPLE_IN, /* as above for what was received */
	K_TUPLE_ACCEPTED, /* of the socket that is the result */
	K_NAME, /* the text at argument a, compared with that of the entry */
	K_ADDRESS_CHECKED, /* as K_ADDRESS, compared with that of the entry */
	K_OPEN_FLAGS, /* argument a and what the kernel's file says */
	K_OPENED_DEVICE,
	K_OPENED_INODE,
	K_ENTER_NAME, /* the name at the entry, if it differs */
	K_OPENED_PATH, /* the path of the kernel's file; a: argument of the folder, or 255 */
	K_BASE_PATH, /* the path of the folder, where the opened path is not below it */
	K_BASE_DEPTH, /* components of the opened path that are below the folder */
	K_EXE, /* the first argument of the program */
	K_ARGS,
	K_ENV,
	K_TID,
	K_PID,
	K_PTID,
	K_FD_LIMIT,
	K_FAULTS_MAJOR,
	K_FAULTS_MINOR,
	K_VM_SIZE,
	K_VM_RSS,
	K_VM_SWAP,
	K_COMM,
	K_CGROUPS,
	K_TTY,
	K_VPGID,
	K_PGID,
	K_LOGINUID,
	K_EXE_FLAGS,
	K_CAP_INHERITABLE,
	K_CAP_PERMITTED,
	K_CAP_EFFECTIVE,
	K_EXE_INODE,
	K_EXE_CTIME,
	K_EXE_MTIME,
	K_UID,
	K_GID,
	K_EXE_PATH,
	K_FILE_NAME, /* of the program, as it was given; a: argument if the call failed */
	K_CLONE_FLAGS, /* a: 0 argument 0, 1 struct clone_args, 2 fork, 3 vfork */
	K_VTID,
	K_VPID,
	K_PIDNS_START,
	K_USER_32, /* 4 bytes at argument a plus b */
	K_USER_64,
	K_PIPE_INODE, /* of the descriptor at argument a */
	K_BYTES_VECTOR, /* of the vector at argument a with b entries */
	K_SIZE_VECTOR,
	K_MESSAGE_BYTES, /* of struct msghdr at argument a; b: 1 as many as the result, 2 as struct mmsghdr says */
	K_MESSAGE_SIZE,
	K_TUPLE_MESSAGE, /* b: 0 out, 1 in */
	K_MESSAGE_CONTROL,
	K_QUEUE_PERCENT,
	K_QUEUE_LENGTH,
	K_QUEUE_MAX,
	K_TIMESPEC, /* nanoseconds at argument a */
	K_POLL_FDS, /* a: pointer, b: count */
	K_USER_64_AS_32,
	K_CREDENTIAL, /* a: 0 uid 1 euid 2 suid 3 gid 4 egid 5 sgid, in 4 bytes */
	K_OPTION_VALUE, /* of setsockopt and getsockopt: a: pointer, b: length */
	K_EXIT_STATUS,
	K_EXIT_RETURN,
	K_EXIT_SIGNAL,
	K_EXIT_CORE,
	K_RESULT_32, /* the result in 4 bytes */
	K_USER_FD, /* a descriptor of 4 bytes at argument a plus b, in 8 bytes */
	K_USER_16, /* 2 bytes at argument a plus b */
	K_OPTION_VALUE_AT, /* as K_OPTION_VALUE, where b points to the length */
	K_NETNS, /* the inode of the network namespace */
	K_KINDS,
};

#endif
