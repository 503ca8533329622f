//! Moments as they are written on a command line.

use super::*;

/// The forms of journalctl's manual, and wrong forms.
#[test]
fn moments_are_those_of_journalctl() {
    let now: Timestamp = "2026-11-23T10:30:00Z".parse().unwrap();
    for (text, wanted) in [
        ("2026-11-22", "2026-11-22T00:00:00Z"),
        ("2026-11-22 04:00", "2026-11-22T04:00:00Z"),
        ("2026-11-22 04:00:05", "2026-11-22T04:00:05Z"),
        ("2026-11-22T04:00:05", "2026-11-22T04:00:05Z"),
        ("2026-11-22T04:00:05+02:00", "2026-11-22T02:00:05Z"),
        ("04:00", "2026-11-23T04:00:00Z"),
        ("04:00:30", "2026-11-23T04:00:30Z"),
        ("today", "2026-11-23T00:00:00Z"),
        ("yesterday", "2026-11-22T00:00:00Z"),
        ("tomorrow", "2026-11-24T00:00:00Z"),
        ("now", "2026-11-23T10:30:00Z"),
        ("@1700000000", "2023-11-14T22:13:20Z"),
        ("2h", "2026-11-23T08:30:00Z"),
        ("-2h", "2026-11-23T08:30:00Z"),
        ("2h30m", "2026-11-23T08:00:00Z"),
        ("1 day ago", "2026-11-22T10:30:00Z"),
        ("2 hours 30 min ago", "2026-11-23T08:00:00Z"),
        ("1w", "2026-11-16T10:30:00Z"),
    ] {
        let wanted: Timestamp = wanted.parse().unwrap();
        assert_eq!(moment(text, now), Some(wanted.as_second()), "{text}");
    }
    for wrong in [
        "",
        "-",
        "ago",
        "2",
        "h",
        "2y",
        "soon",
        "2026-13-01",
        "2026-11-23 25:00",
        "@",
        "@x",
        "23",
        "2h x",
        "99999999999999999999s",
        "9999999999999999w",
        "@99999999999999999",
        "04",
        "é",
    ] {
        assert_eq!(moment(wrong, now), None, "{wrong}");
    }
}
