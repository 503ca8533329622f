//! Lines about wrong arguments.

use super::*;

fn said(args: &[&str]) -> String {
    let args: Vec<OsString> = ["gabion"].iter().chain(args).map(OsString::from).collect();
    let e = parse_arguments(&args).unwrap_err();
    let said = fault(&e, &args);
    assert!(!said.contains('\n'), "{said}");
    said
}

/// The tree, every command of which is looked at by the tests over its help.
#[test]
fn no_command_and_no_option_is_hidden_from_help() {
    fn check_command(command: &Command) {
        for arg in command.get_arguments() {
            assert!(!arg.is_hide_set() && !arg.is_hide_long_help_set(), "{arg}");
        }
        for sub in command.get_subcommands() {
            assert!(!sub.is_hide_set(), "{}", sub.get_name());
            check_command(sub);
        }
    }
    check_command(&tree());
}

#[test]
fn errors_name_command_option_value_and_what_to_write() {
    for (args, wanted) in [
        (
            &["read", "x", "--workers", "-1"][..],
            "gabion: read: --workers -1: write a number from 1 to 1024",
        ),
        (
            &["read", "x", "--behavior", "--kind", "zek"],
            "gabion: read: --kind zek: no such value: did you mean zeek? it is one of zeek, eve, argus, nfdump",
        ),
        (
            &["read", "x", "--config", "--json"],
            "gabion: read: --config: has no value, --json is an option: write --config <YAML>",
        ),
        (&["read", "x", "-c"], "gabion: read: --config: has no value: write --config <YAML>"),
        (
            &["read", "x", "-c", ""],
            "gabion: read: --config: the value is empty: write --config <YAML>",
        ),
        (
            &["read", "x", "--worker", "1"],
            "gabion: read: --worker: no such option: did you mean --workers? gabion read --help lists them",
        ),
        (
            &["rules", "check", "x", "--follow"],
            "gabion: rules check: --follow: no such option: gabion read and others have it; gabion rules check --help \
             lists them",
        ),
        (&["raed"], "gabion: raed: no such command: did you mean read? gabion --help lists them"),
        (
            &["rules", "chek"],
            "gabion: rules: chek: no such command: did you mean check? gabion rules --help lists them",
        ),
        (&["read", "x", "--kind", "eve"], "gabion: read: --kind: needs --behavior: add it"),
        (
            &["read", "x", "--append", "-l", "o", "--overwrite"],
            "gabion: read: --append: does not go with --overwrite: leave one of them out",
        ),
        (&["read"], "gabion: read: <INPUT>...: is missing: gabion read --help says what is taken"),
        (&["read", "x", "--json=1"], "gabion: read: --json 1: takes no value: write --json alone"),
        (&["read", "x", "--json", "--json"], "gabion: read: --json: is given twice: give it once"),
        (
            &["log", "stat", "a", "b"],
            "gabion: log stat: b: one argument too many: gabion log stat --help says what is taken",
        ),
    ] {
        assert_eq!(said(args), wanted, "{args:?}");
    }
}

#[test]
fn what_is_no_text_is_named_with_its_option() {
    use std::os::unix::ffi::OsStringExt;
    let mut args: Vec<OsString> =
        ["gabion", "log", "show", "x", "--grep"].iter().map(OsString::from).collect();
    args.push(OsString::from_vec(b"caf\xe9".to_vec()));
    let e = parse_arguments(&args).unwrap_err();
    assert_eq!(fault(&e, &args), "gabion: log show: --grep caf\u{fffd}: must be text in UTF-8");
}
