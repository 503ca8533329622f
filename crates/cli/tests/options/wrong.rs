//! Wrong values for each row of the table.

use crate::ground::Ground;
use crate::table::{Kind, ROWS, Row};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// A command line with one wrong value.
pub struct Try {
    /// The command and the option.
    pub place: (&'static str, &'static str),
    pub args: Vec<OsString>,
    /// What the answer must name; empty where nothing was given.
    pub value: OsString,
    pub codes: &'static [i32],
    /// What a good answer holds: one of these.
    pub says: &'static [&'static str],
    /// The value is a pipe that somebody opens and closes.
    pub is_fifo: bool,
}

/// Good command lines: arguments and options as `NAME=VALUE`.
const BASES: &[(&str, &str)] = &[
    ("read", "INPUT=$demo"),
    ("rules check", "FILE=$rules"),
    ("rules list", "FILE=$rules"),
    ("rules why", "RULE=9000002 --rules=$rules"),
    ("rules cost", "CAPTURE=$demo --rules=$rules"),
    ("rules test", "CAPTURE=$demo --rules=$rules"),
    ("behavior show", "OUTDIR=$run --profile=10.0.0.1"),
    ("behavior list", "OUTDIR=$run"),
    ("behavior mute", "HOST|TYPE|PAIR=10.0.0.5 --for=7d --because=known --whitelist=$new"),
    ("events", "FILE=$scap FILTER=evt.type=read"),
    ("convert", "OLD=$scap NEW=$new"),
    ("falco", "--version=true"),
    ("guard report", "FILE=$flood --log-dir=$new"),
    ("guard status", "--metrics=127.0.0.1:1"),
    ("guard watch", "--seconds=1"),
    ("guard enforce", "--interface=nosuch0 --allow=10.0.0.1 --seconds=1"),
    ("probe record", "FILE=$new --seconds=1 --calls=acct"),
    ("doctor", "OUTDIR=$run"),
    ("listen", "--udp=127.0.0.1:0 --log=$new --recipient=$pub"),
    ("log keygen", "--out=$new"),
    ("log init", "LOG=$new --origin=x.example/log --recipient=$pub"),
    ("log append", "LOG=$log"),
    ("log follow-journal", "LOG=$log --journalctl=/bin/true"),
    ("log show", "LOG=$log --key=$key"),
    ("log verify", "LOG=$log"),
    ("log prove", "LOG=$log --key=$key --record=0"),
    ("log check-proof", "PROOF=$proof --vkey=$vkey"),
    ("log checkpoint", "LOG=$log"),
    ("log anchor", "add=add ANCHORS=$anchors NOTE|LOG=$log"),
    ("log compare", "A=$anchors B=$anchors"),
    ("log export", "LOG=$log --key=$key"),
    ("log import-slog", "FILE=$garbage --priv-key=$key"),
    ("log recover", "LOG=$log"),
    ("log stat", "LOG=$log"),
    ("log prune", "LOG=$log --keep=90d"),
    ("log rewrap", "LOG=$log --key=$key --remove=0123456789abcdef"),
    ("log shred", "LOG=$log --segment=0"),
    ("log hold", "LOG=$log --segment=0"),
    ("send", "--tcp=127.0.0.1:9 --count=1"),
    ("suricata", "-r=$demo -l=$out"),
];

/// Further options that an option needs.
const NEEDS: &[(&str, &str, &str)] = &[
    ("read", "--kind --intel --whitelist --netflow", "--behavior"),
    ("read", "--reorder", "--behavior --follow"),
    ("read", "--disable-conf --enable-conf --modify-conf", "--rules $rules"),
    ("rules why", "--event", "$scap"),
    ("rules why", "CAPTURE", "--event 1"),
    ("send", "--tls-ca", "--tls 127.0.0.1:9"),
    ("read", "--alert-pcap-ring --alert-pcap-after", "--alert-pcap $new"),
    ("listen", "--tls", "--tls-cert $garbage --tls-key $garbage"),
    ("listen", "--tls-client-ca", "--tls-cert $cert --tls-key $certkey"),
    ("listen", "--tls-cert", "--tls-key $garbage"),
    ("listen", "--tls-key", "--tls-cert $cert"),
    ("listen", "--slog-udp --slog-tcp", "--slog-key $garbage"),
    ("listen", "--witness-ca", "--witness https://127.0.0.1:1"),
    ("log checkpoint", "--witness-ca", "--witness https://127.0.0.1:1"),
    ("log keygen", "--origin", "--signer"),
    ("log import-slog", "--state", "--log $log"),
    ("send", "--tls", "--tls-ca $garbage"),
    ("send", "--tls-cert", "--tls-key $certkey --tls-ca $cert"),
    ("send", "--tls-key", "--tls-cert $cert --tls-ca $cert"),
    ("send", "--tls-name", "--tls-ca $cert"),
    ("send", "--slog-udp --slog-tcp", "--slog-key $garbage"),
    ("suricata", "-c --include -s -S --firewall-rules-exclusive", "-T"),
];

/// Good arguments that conflict with an option.
const WITHOUT: &[(&str, &str, &str)] = &[
    ("log prove", "--finding", "--record"),
    ("read", "--interface", "INPUT"),
    ("log stat", "--socket", "LOG"),
    ("behavior mute", "--config", "--whitelist"),
    ("send", "--unix --tls-ca", "--tcp"),
];

const NUMBER: &[&str] = &["a number "];
const WHAT_TO_DO: &[&str] = &[
    "write ",
    "such as",
    "one of",
    "did you mean",
    "must be",
    "name ",
    "see ",
    "choose",
    "make ",
    "give ",
    "needs",
    "leave ",
    "add ",
    "fix ",
    "run ",
    "docs/",
    "use ",
    "says what",
    "neither a checkpoint nor a file of anchors",
    "gabion log prove writes them",
];

/// All tries of all rows.
pub fn tries(ground: &Ground) -> Vec<Try> {
    let mut all = Vec::new();
    for row in ROWS {
        for name in row.names.split_whitespace() {
            let needs_certificate = needs(row.command, name).any(|with| with.contains("$cert"));
            if needs_certificate && !ground.has_certificate {
                println!("skipped: {} {name}: no openssl", row.command);
                continue;
            }
            for given in values(row, name, ground) {
                all.push(attempt(row, name, given, ground));
            }
        }
    }
    all
}

/// A wrong value, with what a good answer is.
struct Given {
    value: Option<OsString>,
    codes: &'static [i32],
    says: &'static [&'static str],
    is_fifo: bool,
}

/// Further options that an option of a command needs.
fn needs(command: &str, name: &str) -> impl Iterator<Item = &'static str> {
    let is_its = move |of: &str, names: &str| of == command && names.split(' ').any(|n| n == name);
    NEEDS.iter().filter(move |(of, names, _)| is_its(of, names)).map(|(.., with)| *with)
}

fn attempt(row: &Row, name: &'static str, given: Given, ground: &Ground) -> Try {
    let is_named = |list: &str| list.split(' ').any(|one| one == name);
    let base = BASES.iter().find(|(command, _)| *command == row.command);
    let base = base.unwrap_or_else(|| panic!("no command line for {}", row.command)).1;
    let mut args: Vec<OsString> = row.command.split(' ').map(OsString::from).collect();
    let dropped =
        WITHOUT.iter().find(|(command, names, _)| *command == row.command && is_named(names));
    let mut is_placed = false;
    for word in base.split(' ') {
        let (key, good) = word.split_once('=').unwrap();
        if dropped.is_some_and(|(.., gone)| *gone == key) {
            continue;
        }
        let is_it = key == name;
        is_placed |= is_it;
        let value = match &given.value {
            Some(value) if is_it => value.clone(),
            None if is_it => continue,
            _ => ground.words(&format!("x={good}"))[0][2..].into(),
        };
        if key.starts_with('-') {
            args.push(key.into());
        }
        args.push(value);
    }
    for with in needs(row.command, name) {
        args.extend(ground.words(with).into_iter().map(OsString::from));
    }
    match &given.value {
        _ if is_placed && given.value.is_some() => {}
        Some(value) if name.starts_with('-') => args.extend([name.into(), value.clone()]),
        Some(value) => args.push(value.clone()),
        None => args.push(name.into()),
    }
    let value = given.value.unwrap_or_default();
    Try {
        place: (row.command, name),
        args,
        value,
        codes: given.codes,
        says: given.says,
        is_fifo: given.is_fifo,
    }
}

fn values(row: &Row, name: &str, ground: &Ground) -> Vec<Given> {
    let is_suricata = row.command == "suricata";
    let usage: &[i32] = if is_suricata { &[1] } else { &[2] };
    // A log's verbs have verdicts of their own.
    let input: &[i32] = match row.command {
        "suricata" => &[1],
        command if command.starts_with("log ") => &[3, 20, 23, 24, 25],
        _ => &[3],
    };
    let environment: &[i32] = if is_suricata { &[1] } else { &[3, 4] };
    let mut all = Vec::new();
    let mut add = |value: OsString, codes, says| {
        all.push(Given { value: Some(value), codes, says, is_fifo: false })
    };
    let bytes = || OsString::from_vec(b"caf\xe9".to_vec());
    let below = |name: &str| ground.path(name).join("below").into_os_string();
    match row.kind {
        Kind::Number(from, to) => {
            let mut wrong: Vec<String> =
                ["x", "1.5", "-1", "0x10", "1e3", "99999999999999999999999"]
                    .map(String::from)
                    .into();
            wrong.extend(from.checked_sub(1).map(|n| n.to_string()));
            wrong.extend(to.checked_add(1).map(|n| n.to_string()));
            wrong.into_iter().for_each(|value| add(value.into(), usage, NUMBER));
        }
        Kind::Size => {
            for value in ["x", "0", "-1", "64XB", "99999999999GiB", "1..5MiB"] {
                add(value.into(), usage, &["such as 64MiB"]);
            }
        }
        Kind::Place => {
            for value in ["2055", "x", "127.0.0.1", "127.0.0.1:99999", "-1", ":", "[::1]"] {
                add(value.into(), usage, &["such as"]);
            }
        }
        Kind::Age => {
            for value in ["x", "5", "-1s", "2y", "99999999999999999w", "1.5h"] {
                add(value.into(), usage, &["write 90s"]);
            }
        }
        Kind::Time => {
            for value in ["soon", "2026-13-01", "25:00", "99999999999999999999s", "yesterdya"] {
                add(value.into(), usage, &["write 2026"]);
            }
        }
        Kind::Word(near) => {
            add(near.into(), usage, &["did you mean", "one of", "write ", "must be", "known"]);
            add("\u{1b}[31m".into(), usage, WHAT_TO_DO);
        }
        Kind::Form(wrong) => {
            add(wrong.into(), if is_suricata { usage } else { &[2, 3] }, WHAT_TO_DO)
        }
        Kind::Read(good) => {
            for what in ["missing", "folder", "garbage", "empty", "fifo"] {
                let is_good = good.split(' ').any(|one| one == what);
                if !is_good {
                    let value = ground.path(what).into_os_string();
                    all.push(Given {
                        value: Some(value),
                        codes: input,
                        says: WHAT_TO_DO,
                        is_fifo: what == "fifo",
                    });
                }
            }
            for (value, what) in [
                (OsString::from("/dev/zero"), "device"),
                (bytes(), "bytes"),
                (below("empty"), "below"),
            ] {
                if !good.split(' ').any(|one| one == what) {
                    all.push(Given {
                        value: Some(value),
                        codes: input,
                        says: WHAT_TO_DO,
                        is_fifo: false,
                    });
                }
            }
        }
        Kind::Write => {
            add(below("empty"), environment, WHAT_TO_DO);
            add(ground.path("folder").into(), environment, WHAT_TO_DO);
        }
        Kind::Make => {
            add(below("empty"), environment, WHAT_TO_DO);
            add(ground.path("empty").into(), environment, WHAT_TO_DO);
        }
        Kind::Socket => {
            for path in [below("empty"), ground.path("empty").into(), ground.path("folder").into()]
            {
                add(path, environment, WHAT_TO_DO);
            }
            add("x".repeat(200).into(), environment, WHAT_TO_DO);
        }
        Kind::Append => {
            let names = ["folder", "garbage", "fifo"].map(|name| ground.path(name).into());
            for path in names.into_iter().chain([below("empty"), "/dev/zero".into()]) {
                add(path, environment, WHAT_TO_DO);
            }
            // A listener waits for a medium.
            if row.command != "listen" {
                add(below("missing"), environment, WHAT_TO_DO);
            }
        }
        Kind::Run => {
            let names = ["missing", "folder", "garbage", "empty", "fifo"];
            let names = names.map(|name| ground.path(name).into());
            for path in names.into_iter().chain([bytes(), below("empty"), "/dev/zero".into()]) {
                add(path, environment, WHAT_TO_DO);
            }
        }
        Kind::Folder => {
            for path in [below("empty"), ground.path("empty").into(), ground.path("missing").into()]
            {
                add(path, environment, WHAT_TO_DO);
            }
        }
        Kind::Text | Kind::Anything => {}
    }
    if row.kind == Kind::Anything {
        return all;
    }
    let is_path = matches!(
        row.kind,
        Kind::Read(_)
            | Kind::Write
            | Kind::Make
            | Kind::Append
            | Kind::Run
            | Kind::Folder
            | Kind::Socket
    );
    if !is_path {
        all.push(Given {
            value: Some(bytes()),
            codes: usage,
            says: &["UTF-8", "one of"],
            is_fifo: false,
        });
    }
    let empty = if is_suricata || is_path { &[1, 2, 3, 4][..] } else { usage };
    all.push(Given {
        value: Some(OsString::new()),
        codes: empty,
        says: WHAT_TO_DO,
        is_fifo: false,
    });
    if name.starts_with('-') {
        all.push(Given { value: None, codes: usage, says: WHAT_TO_DO, is_fifo: false });
        // Suricata takes whatever stands there, as this door does.
        if !is_suricata {
            all.push(Given {
                value: Some("--quite".into()),
                codes: usage,
                says: WHAT_TO_DO,
                is_fifo: false,
            });
        }
    }
    all
}
