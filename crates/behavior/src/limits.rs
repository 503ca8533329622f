//! Every limit of this crate, each with its reason. Reaching one is counted or said in the evidence.

/// Destinations of which a profile counts ports exactly, a window and protocol. A host that a scan
/// is to be told from has fewer; beyond it a sieve says which destination is worth an entry.
pub const TARGETS_MAX: usize = 64;

/// Ports of which a profile counts destinations exactly.
pub const PORTS_MAX: usize = 64;

/// Members that a set keeps before it becomes a bit map (ports) or a sketch (hosts): at 128 a search
/// through it still costs less than a cache miss, and the reports at 10 and 100 are exact.
pub const SET_MAX: usize = 128;

/// Cells of the sieve before full tables: 2 KiB a profile that scans.
pub const SIEVE_CELLS: usize = 256;

/// Members that let a sieve's cell ask for an entry: half of the 10 that make a scan.
pub const SIEVE_PASS: u32 = 5;

/// Things of which a window counts repeats one by one; what comes after is counted by type alone.
pub const REPEATS_MAX: usize = 128;

/// Destinations of which bytes are summed (space-saving): a destination with a sixteenth of all
/// bytes is never lost, and what is reported is a lower bound.
pub const UPLOADS_MAX: usize = 16;

/// Destinations or names that wait for something to be seen before they become evidence.
pub const WAITING_MAX: usize = 64;

/// Pairs of which repeated refusals are counted.
pub const PAIRS_MAX: usize = 64;

/// Flow ids that evidence carries; how many there were stands beside them.
pub const UIDS_MAX: usize = 8;

/// Findings of a type in a window that are told one by one: what a person looks through. What comes after
/// is counted in findings that grow.
pub const SINGLE_MAX: usize = 700;

/// Of these, findings of one source: enough to see what it does.
pub const SINGLE_OF_SOURCE: u32 = 20;

/// Of these, findings about one target, where many sources do the same to it.
pub const SINGLE_OF_TARGET: u32 = 20;

/// Growing findings of a type and window: for single sources and targets; what comes after is counted in
/// one for all. Some 128 KiB.
pub const SCOPES_MAX: usize = 32;

/// The weightiest of what a growing finding stands for, by name.
pub const HEAVIEST_MAX: usize = 20;

/// Findings of past windows that go on growing and are told again: 1 MiB. Others end with their window.
pub const LASTING_MAX: usize = 1 << 13;

/// Evidence that one alert names by id; how many there were stands beside them.
pub const CORRELATED_MAX: usize = 4096;

/// Ids of a window that are remembered to know a repeat, over all profiles: 4 MiB.
pub const IDS_MAX: usize = 1 << 17;

/// Sums of profiles and windows that evidence adds up in: some 12 MiB.
pub const SUMS_MAX: usize = 1 << 16;

/// Virtual shards of profiles: many more than threads, so that they can be parted evenly.
pub const SHARDS_MAX: usize = 256;

/// Least bytes of a shard: room for eight profiles at their largest beside its seeds. A smaller
/// budget has fewer shards.
pub const SHARD_BYTES_LEAST: usize = 256 << 10;

/// Bytes of profiles without findings that a shard hands over at the end of a window: those who did most,
/// some four thousand hosts of a site a window. All hosts of a large one would fill the disk.
pub const QUIET_KEPT_BYTES: usize = 16 << 10;

/// Records to each of which a profile of a window that has ended is handed over: a window of a few
/// thousand hosts is gone in some ten thousand records, and never stands encoded beside its profiles.
pub const KEEP_EVERY: u64 = 4;

/// Bytes of profiles that are handed over together.
pub const KEPT_TOGETHER_BYTES: usize = 256 << 10;

/// Bytes for seeds and profiles where nobody says otherwise: a quarter of a 256 MiB container.
pub const BUDGET: usize = 64 << 20;

/// Profiles looked at to find the one to fold when their budget is used up. Each look waits for memory, so
/// that sixteen of them took a quarter of the time of a flood.
pub const FOLD_LOOKS: usize = 4;

/// Minutes in which an address must have been active to stay longer than those that pass by. Sources of a
/// flood are active in one minute or two; a beacon that calls each minute has lasted after four.
pub const ACTIVE_MINUTES: u32 = 4;

/// Parts of a shard's budget for profiles, of which each tier of the order of folding keeps one for itself: half
/// of the budget for all eight, and the rest for those that have shown most.
pub const TIER_SHARES: usize = 16;

/// Own addresses and addresses that had lasted that a shard names when they had to be folded.
pub const NAMED_FOLDED_MAX: usize = 8;

/// Longest text from outside that a description repeats.
pub const TEXT_MAX: usize = 512;

/// Addresses of the site of which hardware addresses, resolutions and the like are kept: 2^16
/// entries of some 40 bytes, a tenth of the smallest budget.
pub const SITE_ENTRIES_MAX: usize = 1 << 16;

/// Records whose profiles are looked at together before the first is worked on.
pub const TOGETHER: usize = 8;

/// Addresses outside of which is kept how many of the site's hosts talk with them: 2^15 of some 80
/// bytes, and 64 more where many do.
pub const OUTSIDE_MAX: usize = 1 << 15;

/// Places of seeds that one shard of a checkpoint may have: more than the largest budget gives one, so that
/// a damaged checkpoint asks for no more than 48 MiB.
pub const SEEDS_SAVED_MAX: usize = 1 << 20;

/// Sets of four of the memory of who asked whom: 2^16 questions of 8 bytes, half a mebibyte for the site. A
/// question is of use for minutes, so this holds some 200 a second; more are counted as forgotten.
pub const ASKED_SETS: usize = 1 << 14;

/// Seconds after its flow's end in which a question is answered: SSDP spreads answers over two minutes, and
/// exporters of one-way flows tell a half that goes on anew within five.
pub const ANSWER_S: u32 = 300;

/// Addresses of which is kept whether they resolve names: resolvers of a site are few.
pub const RESOLVERS_MAX: usize = 1 << 10;

/// Registered domains that an address answers for before it is a resolver: who answers for one or two may be the
/// other end of a tunnel.
pub const RESOLVER_DOMAINS: usize = 3;

/// Addresses of which is kept that they are proxies.
pub const PROXIES_MAX: usize = 1 << 10;

/// Destinations of a source of which flows are kept exactly, and names: who has come in the most half hours stays, so
/// that a program that calls every hour outlives the pages of a day. 200 bytes each, and 8 a flow.
pub const REGULAR_MAX: usize = 32;

/// See [`REGULAR_MAX`].
pub const NAMES_MAX: usize = 32;

/// Flows of a pair kept exactly for a day; what is more is counted in the evidence.
pub const FLOWS_MAX: usize = 1024;

/// Connections of a source that a request may still name: a handshake comes within a second of its connection.
pub const RECENT_MAX: usize = 16;

/// Hosts of the site that poll a clock before it is one: a channel that looks like NTP is one or two hosts'.
pub const CLOCK_HOSTS: u32 = 3;
