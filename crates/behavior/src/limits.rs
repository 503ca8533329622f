//! Every limit of this crate, each with its reason. What bounds work or memory stands in the table; the
//! numbers before it decide what something means, or how much is done at a time.

use gabion_record::limits;

/// Cells of the sieve before full tables: 2 KiB a profile that scans.
pub const SIEVE_CELLS: usize = 256;

/// Members that let a sieve's cell ask for an entry: half of the 10 that make a scan.
pub const SIEVE_PASS: u32 = 5;

/// Least bytes of a shard: space for its seeds and for eight profiles of the largest size. A smaller
/// budget has fewer shards.
pub const SHARD_BYTES_LEAST: usize = 256 << 10;

/// Records to each of which a profile of a window that has ended is handed over: a window of a few thousand
/// hosts is gone in some ten thousand records, and is never encoded as a whole while its profiles are still
/// held.
pub const KEEP_EVERY: u64 = 4;

/// Bytes of profiles that are handed over together.
pub const KEPT_TOGETHER_BYTES: usize = 256 << 10;

/// Bytes for seeds and profiles unless configured otherwise: a quarter of a 256 MiB container.
pub const BUDGET: usize = 64 << 20;

/// Minutes in which an address must have been active to stay longer than those that pass by. Sources of a
/// flood are active in one minute or two; a beacon that calls each minute has lasted after four.
pub const ACTIVE_MINUTES: u32 = 4;

/// Parts of a shard's budget for profiles, of which each tier of the order of folding keeps one for itself: half
/// of the budget for all eight, and the rest for those that have shown most.
pub const TIER_SHARES: usize = 16;

/// Addresses outside that are looked at to find one to go for a new one.
pub const OUTSIDE_LOOKS: usize = 2;

/// Records whose profiles are looked at together before the first is worked on.
pub const TOGETHER: usize = 8;

/// Seconds after its flow's end in which a question is answered: SSDP spreads answers over two minutes, and
/// exporters of one-way flows report a half that continues again within five.
pub const ANSWER_S: u32 = 300;

/// Registered domains that an address answers for before it is a resolver: who answers for one or two may be the
/// other end of a tunnel.
pub const RESOLVER_DOMAINS: usize = 3;

/// Hosts of the site that poll a clock before it is one: a channel that looks like NTP is one or two hosts'.
pub const CLOCK_HOSTS: u32 = 3;

limits! { "behavior";
    /// Destinations of which a profile counts ports exactly, a window and protocol. A normal host, which is not
    /// to be taken for a scanner, has fewer; beyond it a sieve says which destination is worth an entry.
    pub const TARGETS_MAX: usize = 64,
        Loses("attempts on the destination that had shown the fewest ports");

    /// Ports of which a profile counts destinations exactly.
    pub const PORTS_MAX: usize = 64,
        Loses("attempts on the port that had shown the fewest hosts");

    /// Members that a set keeps before it becomes a bit map (ports) or a sketch (hosts): at 128 a search
    /// through it still costs less than a cache miss, and the reports at 10 and 100 are exact.
    pub const SET_MAX: usize = 128,
        Spares("from there on a set of hosts is estimated, within 2 %, and one of ports a map of bits");

    /// Things of which a window counts repeats one by one; what comes after is counted by type alone.
    pub const REPEATS_MAX: usize = 128,
        Loses("that a further thing is reported by itself: it is counted with its type");

    /// Destinations of which bytes are summed (space-saving): a destination with a sixteenth of all
    /// bytes is never lost, and what is reported is a lower bound.
    pub const UPLOADS_MAX: usize = 16,
        Loses("bytes to the destination that got the least");

    /// Destinations or names that wait for something to be seen before they become evidence.
    pub const WAITING_MAX: usize = 64,
        Loses("that a further one waits: nothing is reported about it");

    /// Pairs of which repeated refusals are counted.
    pub const PAIRS_MAX: usize = 64,
        Loses("attempts on the server that was tried least");

    /// Flow ids that evidence carries; the evidence also has their full number.
    pub const UIDS_MAX: usize = 8,
        Spares("the evidence has the full number of flows");

    /// Findings of a type in a window that are reported one by one: as many as a person looks through. Later
    /// ones are counted in findings that grow.
    pub const SINGLE_MAX: usize = 700,
        Spares("further ones are reported in findings that grow");

    /// Of these, findings of one source: enough to see what it does.
    pub const SINGLE_OF_SOURCE: u32 = 20,
        Spares("further ones are reported in a finding of that source that grows");

    /// Of these, findings about one target, where many sources do the same to it.
    pub const SINGLE_OF_TARGET: u32 = 20,
        Spares("further ones are reported in a finding of that target that grows");

    /// Growing findings of a type and window: for single sources and targets; what comes after is counted in
    /// one for all. Some 128 KiB.
    pub const SCOPES_MAX: usize = 32,
        Spares("further ones are counted in one for all");

    /// Findings of a type and window that a shard makes whole, in addition to twice its share of
    /// `behavior.single_max`: enough that three sources of a small site that meet in one shard are reported as if each
    /// had its own.
    pub const WHOLE_LEAST: usize = 60,
        Spares("further ones are counted in findings that grow");

    /// The weightiest of a type and window that a shard has seen: what weighs as much is made whole, however many
    /// came before. In a flood in no order that is one in some hundred.
    pub const WHOLE_HEAVY: usize = 4,
        Spares("what weighs less is counted in findings that grow");

    /// Types and windows in which a shard counts what it makes whole: more than the types of a host that does
    /// everything. Some 2 KiB each where a flood fills them.
    pub const CELLS_MAX: usize = 64,
        Spares("findings of further ones are all made whole");

    /// The weightiest of what a growing finding stands for, by name.
    pub const HEAVIEST_MAX: usize = 20,
        Spares("their number is reported with them");

    /// Findings of past windows that continue to grow and are reported again: 1 MiB. Others end with their window.
    pub const LASTING_MAX: usize = 1 << 13,
        Loses("that the findings of past windows that were reported longest ago are reported again when they grow");

    /// Evidence that one alert names by id; the alert also has the full number.
    pub const CORRELATED_MAX: usize = 4096,
        Loses("further ids of evidence in an alert");

    /// Ids of a window that are remembered to know a repeat, over all profiles: 4 MiB.
    pub const IDS_MAX: usize = 1 << 17,
        Loses("that further evidence of the window was reported: it may be reported again");

    /// Sums of profiles and windows that evidence adds up in: some 12 MiB.
    pub const SUMS_MAX: usize = 1 << 16,
        Loses("sums of profiles that had gathered least");

    /// Virtual shards of profiles: many more than threads, so that they can be parted evenly.
    pub const SHARDS_MAX: usize = 256,
        Spares("a larger budget has no more of them");

    /// Bytes of profiles without findings that a shard hands over at the end of a window: the most active ones,
    /// some four thousand hosts of a site a window. All hosts of a large one would fill the disk.
    pub const QUIET_KEPT_BYTES: usize = 16 << 10,
        Loses("profiles without findings in the database of past windows, of the least active hosts");

    /// Profiles looked at to find the one to fold when their budget is used up. Each look waits for memory, so
    /// that sixteen of them took a quarter of the time of a flood.
    pub const FOLD_LOOKS: usize = 4,
        Spares("the best of those that were looked at goes");

    /// Own addresses and addresses that had lasted that a shard names when they had to be folded.
    pub const NAMED_FOLDED_MAX: usize = 8,
        Spares("their number is reported with them");

    /// Longest text from outside that a description repeats.
    pub const TEXT_MAX: usize = 512,
        Loses("the end of a text that a finding repeats");

    /// Addresses of the site of which hardware addresses, resolutions and the like are kept: 2^16
    /// entries of some 40 bytes, a tenth of the smallest budget.
    pub const SITE_ENTRIES_MAX: usize = 1 << 16,
        Loses("what would be known of a further address, or of the one seen longest ago");

    /// Addresses outside of which is kept how many of the site's hosts talk with them: 2^15 of some 80
    /// bytes, and 64 more where many do.
    pub const OUTSIDE_MAX: usize = 1 << 15,
        Loses("how many hosts talk with a further address, for a flow with it");

    /// Places of seeds that one shard of a checkpoint may have: more than the largest budget gives one, so that
    /// a damaged checkpoint asks for no more than 48 MiB.
    pub const SEEDS_SAVED_MAX: usize = 1 << 20,
        Refuses("the checkpoint");

    /// Sets of four of the memory of which host asked which: 2^16 questions of 8 bytes, half a mebibyte for the
    /// site. A question is of use for minutes, so this holds some 200 a second; more are counted as forgotten.
    pub const ASKED_SETS: usize = 1 << 14,
        Loses("a question that could still have been answered");

    /// Addresses of which is kept whether they resolve names: resolvers of a site are few.
    pub const RESOLVERS_MAX: usize = 1 << 10,
        Loses("that a further address resolves names");

    /// Addresses of which is kept that they are proxies.
    pub const PROXIES_MAX: usize = 1 << 10,
        Loses("that a further address is a proxy");

    /// Destinations of a source of which flows are kept exactly, and names: those that came in the most half hours
    /// stay, so that a program that calls every hour outlives the pages of a day. 120 bytes each, and 8 a
    /// flow.
    pub const REGULAR_MAX: usize = 32,
        Loses("flows of the destination that came in the fewest half hours");

    /// Names of a source that are kept exactly, in the same way as destinations.
    pub const NAMES_MAX: usize = 32,
        Loses("requests for the name that came in the fewest half hours");

    /// Flows of a pair kept exactly for a day; of what is more is counted when it came, in steps of two minutes: it
    /// counts in the finding, in the histogram and in what the flows cover.
    pub const FLOWS_MAX: usize = 1024,
        Loses("intervals and sizes of a further flow of that day");

    /// Connections of a source that a request may still name: a handshake comes within a second of its connection.
    pub const RECENT_MAX: usize = 16,
        Loses("a connection of the same moments that a request may still name: it counts twice");

    /// Types of evidence of which repeats are counted together when things have no room: there are some seventy.
    pub const REPEATED_TYPES_MAX: usize = 128,
        Spares("there are fewer types");

    /// Ports of a type of evidence for which first records of constantly changing sources are counted apart, by
    /// shard.
    pub const CROWD_MAX: usize = 512,
        Loses("the count of the port that was seen least: further ones are counted by type");

    /// Servers of a source that are known as ones for pasted text. There are some ten.
    pub const PASTE_SERVERS_MAX: usize = 16,
        Loses("that another server is one for pasted text");

    /// Rare destinations of a source that are counted, by use.
    pub const RARE_MAX: usize = 8,
        Loses("flows of the rare destination that was used least");

    /// Servers of a source that its hours know already, for what is new in an hour.
    pub const KNOWN_SERVERS_MAX: usize = 256,
        Loses("that a further server is known: it counts as new in each hour");

    /// Addresses of servers of a source, with the hour of the first handshake, for bytes to known servers.
    pub const KNOWN_ADDRESSES_MAX: usize = 64,
        Loses("bytes to a further server");

    /// Hours that an hour is compared with.
    pub const HOURS_MAX: usize = 256,
        Spares("the oldest hour is forgotten, as is meant");

    /// Flows to known servers that a flow is compared with.
    pub const COMPARED_FLOWS_MAX: usize = 32,
        Spares("the oldest flow is forgotten, as is meant");

    /// Destinations of a window of which open ports without a name are counted: this is worth knowing only.
    pub const VICTIMS_MAX: usize = 32,
        Loses("ports of a further destination");

    /// Ports that a text names.
    pub const NAMED_PORTS_MAX: usize = 20,
        Spares("their number is reported with them");

    /// Flows to SSH servers, and handshakes, that wait for each other for 15 seconds.
    pub const SSH_JOINS_MAX: usize = 16,
        Loses("that a login worked, where the other record of its flow comes within those seconds");

    /// Destinations of UDP to high ports of which flows are counted, to know programs that talk with their
    /// like: five are enough to know one.
    pub const PEERS_MAX: usize = 16,
        Spares("a host with this many is known by their number");

    /// Addresses where a source went lately, for names that it asked for before: it is looked back half an hour.
    pub const VISITED_MAX: usize = 256,
        Loses("that an address was visited within the half hour before its name was asked for");

    /// Addresses of one answer that a connection is waited for; more than that are those of large providers, which
    /// are answered a few at a time.
    pub const NAME_ANSWERS_MAX: usize = 8,
        Loses("further addresses of an answer: a connection to one does not excuse the name");

    /// Addresses of a name that a connection is waited for, from several answers.
    pub const NAME_ADDRESSES_MAX: usize = 16,
        Loses("further addresses of a name: a connection to one does not excuse it");

    /// Private resolvers outside of the local network of which answers are counted.
    pub const LOCAL_RESOLVERS_MAX: usize = 16,
        Loses("that a further resolver answers: queries to it are reported");

    /// Registered domains of a source of which names are counted, by how many they are: RITA counts all of a
    /// day, and 500 names below one are reported.
    pub const TUNNEL_DOMAINS_MAX: usize = 8,
        Loses("names below the domain that had the fewest");

    /// Pairs of a source and window of which letters are kept, by how much they were used.
    pub const LETTERED_PAIRS_MAX: usize = 12,
        Loses("letters of the pair that was used least");

    /// Letters of a pair: the model was trained with strings of up to this length (Slips cuts there too).
    pub const LETTERS_MAX: usize = 500,
        Spares("a string of that length is scored as it is, as by Slips");

    /// Hours that are written for one gap: more than a window has, and what one record of the future may add.
    pub const GAP_HOURS_MAX: i64 = 24,
        Spares("a longer gap is written as one of a day");

    /// Destinations of a source whose connections of a day are summed, by how long and how often.
    pub const SUMMED_PAIRS_MAX: usize = 8,
        Loses("time and connections of the pair that had the least: the reported number is a lower bound");

    /// Open flows of such a pair that are distinguished.
    pub const OPEN_FLOWS_MAX: usize = 4,
        Loses("how long an open flow had lasted when it was seen: it counts twice");

    /// Hosts, and ports, of a source of which attempts of a day are counted.
    pub const SLOW_THINGS_MAX: usize = 8,
        Loses("attempts on the host or port that had shown the least");

    /// User agents and JA3 of a source, by use.
    pub const SIGNATURES_MAX: usize = 8,
        Loses("uses of the signature that was used least");

    /// Flows of a source that were recognized as TLS or HTTP, the latest of each destination and port: they excuse
    /// others of five minutes.
    pub const RECOGNIZED_MAX: usize = 32,
        Loses("a recognized flow that would still excuse others");

    /// Answers of one query that are looked up in lists.
    pub const LISTED_ANSWERS_MAX: usize = 16,
        Loses("look-ups of further answers");

    /// Certificates of one handshake that are looked up in lists: chains have two or three.
    pub const CHAIN_MAX: usize = 8,
        Loses("look-ups of further certificates");

    /// Bytes of a name of a host (RFC 1035).
    pub const NAME_BYTES_MAX: usize = 253,
        Spares("a longer text is no name");

    /// Entries of a whitelist: far more than people write.
    pub const WHITELIST_ENTRIES_MAX: usize = 1 << 20,
        Counts("further entries, with a warning that names the line");

    /// Networks of a whitelist that are narrowed to a type or a time: each is compared with all evidence.
    pub const WHITELIST_NARROW_RANGES_MAX: usize = 256,
        Counts("further ones, with a warning that names the line");

    /// Bytes of a line of a list of indicators: an address of the web is the longest, and browsers take 2,000.
    pub const LIST_LINE_MAX: usize = 4096,
        Counts("the line, among the wrong ones of the list");

    /// Columns of a line of a list that are looked at; the widest known have 20.
    pub const LIST_COLUMNS_MAX: usize = 24,
        Counts("a line without an indicator before it, among the wrong ones of the list");

    /// Bytes of an object of JSON in a list: those of STIX have a few kilobytes.
    pub const OBJECT_MAX: usize = 256 << 10,
        Counts("the object, among the wrong ones of the list");

    /// Nesting of JSON in a list that is still read.
    pub const OBJECT_DEPTH_MAX: usize = 64,
        Counts("the object, among the wrong ones of the list");

    /// Indicators of one pattern of STIX.
    pub const OF_PATTERN_MAX: usize = 256,
        Counts("the pattern, among those of the list that one look-up can't answer");

    /// White space before anything that a file of JSON may begin with.
    pub const BLANK_MAX: usize = 4096,
        Spares("the file is read by lines");

    /// Numbers of wrong lines that are named of a list.
    pub const WRONG_LINES_MAX: usize = 8,
        Spares("their number is reported with them");

    /// Bytes of a list up to which entries find their text again: what 42 bits can say.
    pub const LIST_OFFSET_MAX: u64 = 1 << 42,
        Spares("an entry after it is found, and reported without its description");

    /// Lists: what 16 bits can say.
    pub const LISTS_MAX: usize = 1 << 16,
        Refuses("the further list");
}

#[cfg(test)]
mod tests;
