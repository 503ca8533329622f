//! The clones that reviews of the repository found: which of them still stand. At most three may
//! ([`STANDING_MAX`]), and `counts.tsv` keeps the number.

use crate::counts::work;
use crate::tree::File;

/// Most clones that may stand.
pub const STANDING_MAX: usize = 3;

/// Lines in a row that make two files clones of each other.
const RUN: usize = 8;

/// A clone: what it is, and how it is found again.
struct Clone {
    what: &'static str,
    sign: Sign,
}

/// How a clone is found.
enum Sign {
    /// Two files have a run of equal lines.
    Run(&'static str, &'static str),
    /// More than this many sources below a folder have one of these words.
    Words(&'static str, &'static [&'static str], usize),
}

use Sign::{Run, Words};

const CLONES: &[Clone] = &[
    Clone {
        what: "supervised workers by hand next to runtime::fanout",
        sign: Words("crates/sensor/src/", &["struct Spares", "struct Stalls", ".next_event("], 0),
    },
    Clone {
        what: "exit codes of the sealed log as bare numbers in cli",
        sign: Words(
            "crates/cli/src/",
            &["from(20)", "from(21)", "from(22)", "Exit(2", "exit(2"],
            0,
        ),
    },
    Clone {
        what: "states of a body in HTTP/1 requests and responses",
        sign: Run("crates/proto/src/http1/request.rs", "crates/proto/src/http1/response.rs"),
    },
    Clone {
        what: "the events of a message in DNS and mDNS",
        sign: Run("crates/proto/src/dns/parser.rs", "crates/proto/src/mdns/mod.rs"),
    },
    Clone {
        what: "from a packet to the key of its flow",
        sign: Words("", &["PacketKey {\n        src: d.src,"], 1),
    },
    Clone { what: "finding the corpus", sign: Words("", &["(\"GABION_CORPUS\""], 1) },
    Clone {
        what: "a record of the sealed log as five parameters",
        sign: Words("crates/intake/src/", &["kind: Kind, flags: Flags, bytes: &"], 0),
    },
    Clone {
        what: "bytes as hexadecimal digits",
        sign: Words("crates/", &["|b| format!(\"{b:02x}\")", "HEX[usize::from(b >> 4)]"], 0),
    },
    Clone {
        what: "a table of hexadecimal digits",
        sign: Words("crates/", &["&[u8; 16] = b\"0123456789"], 1),
    },
    Clone {
        what: "a second type for why a command ends",
        sign: Words("crates/cli/src/", &["struct LogFault"], 0),
    },
    Clone {
        what: "a run of detection and its resources, built twice",
        sign: Run("crates/net/src/inspection.rs", "crates/net/src/firewall.rs"),
    },
    Clone {
        what: "the same eight parameters of the application layer, passed five times",
        sign: Words("crates/net/src/app/", &["clippy::too_many_arguments"], 0),
    },
    Clone {
        what: "a second list of flow-log formats in cli",
        sign: Words("crates/cli/src/", &["enum LogFormat"], 0),
    },
    Clone {
        what: "macros for buffers of HTTP/1 and SMTP",
        sign: Run("crates/proto/src/http1/buffers.rs", "crates/proto/src/smtp/tables.rs"),
    },
    Clone {
        what: "the state of a profile written and read by hand, next to state!",
        sign: Words("crates/behavior/src/profile", &["State::decode(&mut from)?"], 0),
    },
    Clone {
        what: "formats and files of outputs in two parallel vectors",
        sign: Words("crates/outputs/src/", &["formats.push(", "files.push("], 0),
    },
    Clone {
        what: "a protocol's description with every field written out",
        sign: Words("crates/proto/src/", &["    tls: None,\n    udp: None"], 0),
    },
];

/// What each clone that still stands is.
#[must_use]
pub fn standing(files: &[File]) -> Vec<&'static str> {
    CLONES.iter().filter(|clone| stands(&clone.sign, files)).map(|clone| clone.what).collect()
}

fn stands(sign: &Sign, files: &[File]) -> bool {
    match sign {
        Run(one, other) => {
            let lines = |path: &str| {
                let file = files.iter().find(|file| file.path == path);
                file.map_or_else(Vec::new, |file| code(&file.text))
            };
            longest_run(&lines(one), &lines(other)) >= RUN
        }
        Words(folder, words, most) => {
            let sources = files.iter().filter(|file| {
                file.path.starts_with(folder)
                    && file.path.ends_with(".rs")
                    && !file.path.starts_with("tests/tidy/")
            });
            let with =
                sources.filter(|file| words.iter().any(|word| work(&file.text).contains(word)));
            with.count() > *most
        }
    }
}

/// The lines of code before the unit tests, without indents, comments and imports.
fn code(text: &str) -> Vec<&str> {
    let lines = work(text).lines().map(str::trim);
    lines
        .filter(|line| {
            !["", "}"].contains(line) && !line.starts_with("//") && !line.starts_with("use ")
        })
        .collect()
}

/// The most equal lines in a row of two texts.
fn longest_run(one: &[&str], other: &[&str]) -> usize {
    let mut before = vec![0; other.len() + 1];
    let mut longest = 0;
    for line in one {
        let mut now = vec![0; other.len() + 1];
        for (at, _) in other.iter().enumerate().filter(|(_, theirs)| *theirs == line) {
            now[at + 1] = before[at] + 1;
            longest = longest.max(now[at + 1]);
        }
        before = now;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_clone_stands_while_its_lines_or_words_do() {
        let same: String = (0..RUN).map(|n| format!("    let a{n} = {n};\n\n")).collect();
        let (dns, mdns) = ("crates/proto/src/dns/parser.rs", "crates/proto/src/mdns/mod.rs");
        assert!(standing(&[file(dns, &same), file(mdns, "x\n")]).is_empty());
        assert_eq!(standing(&[file(dns, &same), file(mdns, &format!("x\n{same}"))]).len(), 1);
        let shorter = same.replace("a3 =", "b =");
        assert!(standing(&[file(dns, &same), file(mdns, &shorter)]).is_empty());
        let list = file("crates/cli/src/command_line.rs", "pub enum LogFormat {\n}\n");
        assert_eq!(standing(&[list]), ["a second list of flow-log formats in cli"]);
    }
}
