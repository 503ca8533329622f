//! What the commands are tried on: a capture's run, a sealed log with keys, and files that are none of these.

use crate::program::{demo, gabion, repository};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder with all of it.
pub struct Ground {
    dir: tempfile::TempDir,
    names: BTreeMap<&'static str, String>,
    /// There are a certificate that vouches for itself, and its key.
    pub has_certificate: bool,
}

impl Ground {
    /// Makes it, by the program itself.
    pub fn new() -> Ground {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let mut names = BTreeMap::from([
            ("demo", demo()),
            ("flood", repository("demo/guard/flood.csv.zst").display().to_string()),
            ("rules", repository("demo/gabion.rules").display().to_string()),
        ]);
        for name in [
            "run", "keys", "log", "anchors", "proof", "vkey", "new", "garbage", "empty", "folder",
            "missing", "fifo", "out", "cwd", "cert", "certkey", "scap",
        ] {
            names.insert(name, at(name));
        }
        names.insert("key", at("keys/recipient.key"));
        names.insert("pub", at("keys/recipient.pub"));
        std::fs::write(at("garbage"), b"\x00\xff\x01 nothing that is known \xfe\n".repeat(9))
            .unwrap();
        std::fs::write(at("empty"), "").unwrap();
        // A capture of system calls without events: the header of its section.
        let mut scap = b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\x02\0".to_vec();
        scap.extend([0xff; 8]);
        scap.extend([0x1c, 0, 0, 0]);
        std::fs::write(at("scap"), scap).unwrap();
        for folder in ["folder", "out", "cwd"] {
            std::fs::create_dir(at(folder)).unwrap();
        }
        let kind = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, Path::new(&at("fifo")), kind, mode, 0).unwrap();
        let openssl = Command::new("openssl")
            .args(["req", "-x509", "-days", "2", "-subj", "/CN=localhost", "-nodes"])
            .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-keyout", &at("certkey"), "-out", &at("cert")])
            .stderr(Stdio::null())
            .status();
        let has_certificate = openssl.is_ok_and(|status| status.success());
        let ground = Ground { dir, names, has_certificate };
        for line in [
            "read $demo --behavior -l $run -q",
            "log keygen --out $keys",
            "log init $log --origin log.example/a --recipient $pub",
            "log append $log --quiet",
            "log anchor add $anchors $log",
            "log prove $log --key $key --record 0 --output $proof",
        ] {
            let args = ground.words(line);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let done = gabion(&args);
            assert_eq!(done.code, 0, "{line}: {}", done.err);
        }
        for (from, to) in [("log", "kept"), ("log.state", "kept.state")] {
            let (from, to) = (ground.dir.path().join(from), ground.dir.path().join(to));
            std::fs::create_dir(&to).unwrap();
            for entry in std::fs::read_dir(from).unwrap().flatten() {
                std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
        // The public key, as the log's own statement has it.
        let id = std::fs::read_to_string(ground.path("log").join("log.id")).unwrap();
        let key = id.lines().find_map(|line| line.strip_prefix("key ")).unwrap();
        std::fs::write(ground.path("vkey"), key).unwrap();
        ground
    }

    /// Where a name of the ground is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.names.get(name).unwrap_or_else(|| panic!("no {name} in the ground")).into()
    }

    /// The folder that commands are run in.
    pub fn cwd(&self) -> PathBuf {
        self.path("cwd")
    }

    /// Words of a line, `$NAME` replaced by where that is.
    pub fn words(&self, line: &str) -> Vec<String> {
        line.split_whitespace()
            .map(|word| match word.split_once('$') {
                Some((before, name)) => format!("{before}{}", self.path(name).display()),
                None => word.to_owned(),
            })
            .collect()
    }

    /// Every file and folder with its length, but what Suricata's door writes before it reads.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, u64> {
        fn look(folder: &Path, out: &mut BTreeMap<PathBuf, u64>) {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let about = entry.metadata().unwrap();
                let is_folder = about.is_dir();
                out.insert(entry.path(), if is_folder { 0 } else { about.len() });
                if is_folder && entry.file_name() != "out" {
                    look(&entry.path(), out);
                }
            }
        }
        let mut out = BTreeMap::new();
        look(self.dir.path(), &mut out);
        out
    }

    /// Removes new files, and restores changed ones.
    pub fn clean(&self, before: &BTreeMap<PathBuf, u64>) {
        for path in self.snapshot().keys().rev().filter(|path| !before.contains_key(*path)) {
            let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
        }
        for (from, to) in [("kept", "log"), ("kept.state", "log.state")] {
            let (from, to) = (self.dir.path().join(from), self.dir.path().join(to));
            for entry in std::fs::read_dir(from).unwrap().flatten() {
                std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
}
