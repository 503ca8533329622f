//! All options with values, by what is wanted of them.

/// The kind of value that an option needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number within bounds.
    Number(u64, u64),
    /// An amount of memory.
    Size,
    /// Address and port.
    Place,
    /// An age such as 90s.
    Age,
    /// A time in journalctl's forms.
    Time,
    /// One of some words; this one is nearly one of them.
    Word(&'static str),
    /// Any text that is not empty.
    Text,
    /// Text of which this is not a good one.
    Form(&'static str),
    /// A file or folder that is read; of the tries those that are right for it.
    Read(&'static str),
    /// A file that is written.
    Write,
    /// A folder that is written or made.
    Make,
    /// A file that is appended to, and read before that.
    Append,
    /// A program that is run.
    Run,
    /// A folder that is there.
    Folder,
    /// A socket that is made or sent to.
    Socket,
    /// Any value is accepted.
    Anything,
}

/// Some options of a command that want the same.
pub struct Row {
    pub command: &'static str,
    pub names: &'static str,
    pub kind: Kind,
}

const fn row(command: &'static str, names: &'static str, kind: Kind) -> Row {
    Row { command, names, kind }
}

/// Seconds that an option may ask for.
const SECONDS: Kind = Kind::Number(1, 10 * 366 * 86_400);
const THREADS: Kind = Kind::Number(1, 1024);
const ROWS_OF_TABLE: Kind = Kind::Number(1, 0xffff_ffff);
const ANY_NUMBER: Kind = Kind::Number(0, u64::MAX);

use Kind::*;

pub const ROWS: &[Row] = &[
    row("read", "--config", Read("")),
    // A file without rules is reported, but is no error.
    row("read", "--rules", Read("empty fifo")),
    row("read", "--set", Form("novalue")),
    row("read", "--disable-conf --enable-conf --modify-conf", Read("empty fifo garbage")),
    row("rules check", "--disable-conf --enable-conf --modify-conf", Read("empty fifo garbage")),
    row("rules list", "--disable-conf --enable-conf --modify-conf", Read("empty fifo garbage")),
    row("rules why", "--disable-conf --enable-conf --modify-conf", Read("empty fifo garbage")),
    row("rules cost", "--disable-conf --enable-conf --modify-conf", Read("empty fifo garbage")),
    row("rules test", "--disable-conf --enable-conf --modify-conf", Read("empty fifo garbage")),
    row("read", "--checksums", Word("al")),
    row("read", "INPUT", Read("")),
    row("read", "--kind", Word("zek")),
    row("read", "--intel", Read("folder empty garbage fifo")),
    row("read", "--whitelist", Read("empty fifo")),
    row("read", "--netflow", Place),
    row("read", "--reorder", Number(0, 10 * 366 * 86_400)),
    row("read", "--log-dir", Make),
    row("read", "--report --alert-pcap", Write),
    row("read", "--seal", Read("")),
    row("read", "--alert-pcap-ring --budget", Size),
    row("read", "--alert-pcap-after", Number(0, 0xffff_ffff)),
    row("read", "--filter", Form("tcp prot 80")),
    row("read", "--workers", THREADS),
    row("read", "--fail-on", Number(1, 255)),
    row("rules check", "--config", Read("")),
    row("rules check", "FILE", Read("empty fifo")),
    row("rules check", "--set", Form("=x")),
    row("rules list", "--config", Read("")),
    row("rules list", "FILE", Read("empty fifo")),
    row("rules list", "--set", Form("=x")),
    row("rules why", "--config", Read("")),
    row("rules why", "--rules", Read("empty fifo")),
    row("rules why", "--set", Form("=x")),
    row("rules why", "SID", Form("1:x")),
    row("rules cost", "--config CAPTURE", Read("")),
    row("rules cost", "--rules", Read("empty fifo")),
    row("rules cost", "--set", Form("=x")),
    row("rules cost", "--checksums", Word("nnoe")),
    row("rules cost", "--rows", ROWS_OF_TABLE),
    row("rules test", "--config CAPTURE", Read("")),
    row("rules test", "--rules --expect", Read("empty fifo")),
    row("rules test", "--set", Form("=x")),
    row("rules test", "--checksums", Word("alll")),
    row("rules test", "--jobs", THREADS),
    row("behavior show", "OUTDIR", Read("")),
    row("behavior show", "--profile", Form("300.1.1.1")),
    row("behavior show", "--rows", ROWS_OF_TABLE),
    row("behavior list", "OUTDIR", Read("")),
    row("behavior list", "--type", Word("BECAON")),
    row("behavior list", "--level", Word("hihg")),
    row("behavior list", "--host", Text),
    row("behavior list", "--since", Time),
    row("behavior list", "--sort", Word("threta")),
    row("behavior list", "--rows", ROWS_OF_TABLE),
    row("behavior mute", "HOST|TYPE|PAIR", Form("nobody")),
    row("behavior mute", "--type", Word("BECAON")),
    row("behavior mute", "--for", Age),
    row("behavior mute", "--because", Text),
    row("behavior mute", "--whitelist", Append),
    row("behavior mute", "--config --preview", Read("")),
    row("doctor", "OUTDIR --root", Read("")),
    row("listen", "--udp --tcp --tls --relp --slog-udp --slog-tcp --metrics", Place),
    row("listen", "--unix", Socket),
    row("listen", "--slog-key --slog-config --tls-cert --recipient --witness-ca", Read("")),
    row("listen", "--tls-key --tls-client-ca", Read("")),
    row("listen", "--log --state --spill", Make),
    row("listen", "--origin", Form("a b")),
    row("listen", "--checkpoint-chunks", Number(1, 0xffff_ffff)),
    row("listen", "--checkpoint-seconds --stats --idle --frame-timeout", SECONDS),
    row("listen", "--on-full", Word("blokc")),
    row("listen", "--witness", Form("ftp://witness.example")),
    // A medium that is not there is tried again while messages are sealed.
    row("listen", "--anchor-append", Append),
    row("listen", "--anchor-cmd", Text),
    row("listen", "--commit-after", Number(1, 10_000)),
    row("listen", "--connections", Number(1, 0xffff_ffff)),
    row("listen", "--receive-buffer", Number(1, 1 << 31)),
    row("listen", "--slog-workers", THREADS),
    row("log keygen", "--out", Make),
    row("log keygen", "--type", Word("x25591")),
    row("log keygen", "--origin", Form("a+b")),
    row("log init", "LOG --state", Make),
    row("log init", "--origin", Form("a b")),
    row("log init", "--recipient", Read("")),
    row("log init", "--checkpoint-chunks", Number(1, 0xffff_ffff)),
    row("log init", "--checkpoint-seconds", SECONDS),
    row("log append", "LOG --state", Read("")),
    row("log append", "--class --into", Text),
    row("log follow-journal", "LOG --state", Read("")),
    row("log follow-journal", "--journalctl", Run),
    row("log follow-journal", "--class", Text),
    // They are journalctl's own.
    row("log follow-journal", "ARGUMENT", Anything),
    row("log show", "LOG --key --vkey", Read("")),
    row("log show", "--since --until", Time),
    row("log show", "--host --unit --identifier --source --grep", Text),
    row("log show", "--priority", Word("wraning")),
    row("log show", "--record", Form("9-3")),
    row("log show", "--kind", Word("mesage")),
    // None is what journalctl takes, too.
    row("log show", "--lines", ANY_NUMBER),
    // A folder without a log has a verdict, on standard output.
    row("log verify", "LOG", Read("folder")),
    row("log verify", "--anchor --vkey --witness --key", Read("")),
    row("log verify", "--max-age", Age),
    row("log verify", "--jobs", Number(1, 255)),
    row("log prove", "LOG --key --vkey", Read("")),
    row("log prove", "--record", ANY_NUMBER),
    row("log prove", "--finding", Form("12")),
    row("log prove", "--output", Write),
    row("log check-proof", "PROOF --vkey", Read("")),
    row("log checkpoint", "LOG", Read("folder")),
    row("log checkpoint", "--vkey --witness-ca", Read("")),
    row("log checkpoint", "--since", ANY_NUMBER),
    row("log checkpoint", "--witness", Form("witness.example")),
    row("log checkpoint", "--anchor-append", Append),
    row("log checkpoint", "--anchor-cmd", Text),
    row("log anchor", "add", Word("ad")),
    row("log anchor", "ANCHORS", Write),
    row("log anchor", "NOTE|LOG", Read("folder")),
    row("log anchor", "--vkey", Read("")),
    row("log compare", "A B", Read("")),
    row("log compare", "--log", Read("folder")),
    row("log export", "LOG --key --vkey", Read("")),
    row("log export", "--since --until", Time),
    row("log export", "--host --unit --identifier --source --grep", Text),
    row("log export", "--priority", Word("9")),
    row("log export", "--record", Form("x")),
    row("log export", "--kind", Word("findings")),
    row("log export", "--format", Word("jsno")),
    row("log import-slog", "FILE", Read("garbage empty fifo device")),
    row("log import-slog", "--password-file", Read("garbage empty fifo")),
    row("log import-slog", "--priv-key", Read("")),
    row("log import-slog", "--log --state", Read("")),
    row("log import-slog", "--expect-lines", ANY_NUMBER),
    row("log import-slog", "--expect-last", Form("abc")),
    row("log recover", "LOG --state", Read("")),
    row("log stat", "LOG --vkey", Read("")),
    row("log stat", "--socket", Place),
    row("log prune", "LOG", Read("folder")),
    row("log prune", "--state", Read("")),
    row("log prune", "--keep", Age),
    row("log rewrap", "LOG --state --key --add", Read("")),
    row("log rewrap", "--remove", Form("nobody")),
    row("log shred", "LOG", Read("folder")),
    row("log shred", "--state", Read("")),
    row("log shred", "--segment", ANY_NUMBER),
    row("log shred", "--class", Text),
    row("log hold", "LOG", Read("folder")),
    row("log hold", "--state", Read("")),
    row("log hold", "--segment", ANY_NUMBER),
    row("send", "--udp --tcp --tls --relp --slog-udp --slog-tcp", Place),
    row("send", "--unix", Socket),
    row("send", "--count", Number(1, u64::MAX >> 8)),
    row("send", "--seconds", SECONDS),
    row("send", "--size", Number(1, 64 << 20)),
    row("send", "--rate", Number(1, 0xffff_ffff)),
    row("send", "--text", Read("garbage empty fifo")),
    row("send", "--slog-key", Read("")),
    row("send", "--tls-ca", Read("garbage empty fifo")),
    row("send", "--tls-cert --tls-key", Read("")),
    row("send", "--connections", Number(1, 10_000)),
    row("send", "--tls-name", Form("a b")),
    row("suricata", "-c --include", Read("")),
    // A folder without captures, a filter without words and a file without rules are none, as in Suricata.
    row("suricata", "-r", Read("folder")),
    row("suricata", "-F -s -S --firewall-rules-exclusive", Read("empty fifo")),
    row("suricata", "--disable-conf --enable-conf --modify-conf", Read("empty fifo garbage")),
    row("suricata", "--data-dir", Folder),
    row("suricata", "--set", Form("novalue")),
    row("suricata", "--user --group", Form("nobodyx")),
    row("suricata", "--runmode", Word("workres")),
    row("suricata", "--pidfile", Write),
    row("suricata", "-l", Make),
    row("suricata", "-k", Word("al")),
];
