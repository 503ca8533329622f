//! The family of a test, for tables: the first folder of a nested test, else the first word of its
//! name; words that mean one subject are one family, and rare words are "other".

/// First words that belong to a family with another name. A word ending in `*` matches all words
/// that begin with it.
const SAME: [(&str, &str); 34] = [
    ("mqtt*", "mqtt"),
    ("smb*", "smb"),
    ("nfs*", "nfs"),
    ("ikev*", "ike"),
    ("ja3*", "ja3/ja4"),
    ("ja4*", "ja3/ja4"),
    ("sslv2", "tls"),
    ("ssl_version_negated", "tls"),
    ("issue", "bug/issue"),
    ("issues", "bug/issue"),
    ("bug", "bug/issue"),
    ("security", "bug/issue"),
    ("detect-http-uri", "uri"),
    ("uricontent", "uri"),
    ("http1", "http"),
    ("http-connect", "http"),
    ("exception", "exception-policy"),
    ("exception-policy-master-switch", "exception-policy"),
    ("bug-5825-midstream-exception-policy", "exception-policy"),
    ("datajson", "datasets"),
    ("datarep", "datasets"),
    ("filemagic", "file"),
    ("fileext", "file"),
    ("filename", "file"),
    ("filesize", "file"),
    ("filemd5", "file"),
    ("filestore", "file"),
    ("flowbit", "flowbits"),
    ("test", "rules"),
    ("rule", "rules"),
    ("rule-grouping", "rules"),
    ("mime", "smtp"),
    ("stream-async", "stream"),
    ("streamsize", "stream"),
];

/// Words with few tests in the shared tests, which have no family of their own.
const RARE: [&str; 35] = [
    "util",
    "telnet",
    "config",
    "cond",
    "classification",
    "dropped",
    "feature",
    "truncate",
    "requires",
    "multi",
    "mac",
    "community",
    "bypass",
    "protocol",
    "proto",
    "prefilter",
    "memcap",
    "list",
    "linktype",
    "like",
    "ips",
    "ipopts",
    "icmp",
    "hashaf",
    "geoip",
    "flowint",
    "entropy",
    "engine",
    "domain",
    "derive",
    "content",
    "byte",
    "bpf",
    "reputation",
    "reputation-config",
];

/// The family of the test of this name.
#[must_use]
pub fn family(test: &str) -> &str {
    let word = match test.split_once('/') {
        Some((folder, _)) => match folder.split_once('-') {
            // Folders of single regressions would otherwise be families of their own.
            Some((word @ ("bug" | "issue"), _)) if !folder.contains("exception") => word,
            _ => folder,
        },
        None => test.split('-').next().unwrap_or(test),
    };
    for (from, to) in SAME {
        let is_same = match from.strip_suffix('*') {
            Some(begin) => word.starts_with(begin),
            None => word == from,
        };
        if is_same {
            return to;
        }
    }
    if RARE.contains(&word) { "other" } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_belong_to_families() {
        let table = [
            ("http-evader/http-evader-001", "http-evader"),
            ("dns/v2/bug-856", "dns"),
            ("dns-reversed", "dns"),
            ("mqtt311-unsub-userpass", "mqtt"),
            ("smb2-03", "smb"),
            ("bug-5220/bug-5220-01", "bug/issue"),
            ("bug-5825-midstream-exception-policy/x", "exception-policy"),
            ("issue-4407", "bug/issue"),
            ("byte-math-01", "other"),
            ("base64", "base64"),
        ];
        for (test, expected) in table {
            assert_eq!(family(test), expected, "{test}");
        }
    }
}
