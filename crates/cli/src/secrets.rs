//! Secrets that were given where a path or a public key is wanted: error texts repeat what was given, and they
//! end in journals and tickets. So each of the arguments that may be a secret is left out of them.

use std::borrow::Cow;
use std::path::Path;

/// The text that replaces a secret.
const LEFT_OUT: &str = "(not repeated here: it may be a secret)";

/// Options whose values name keys or passwords.
const OPTIONS: [&str; 7] =
    ["--vkey", "--witness", "--key", "--recipient", "--priv-key", "--tls-key", "--password-file"];

/// Marks of secret keys in text: our own and those of PEM.
const MARKS: [&str; 2] = ["gabion-secret-", "PRIVATE KEY"];

/// Least length of a key that is named by nothing but itself: 16 bytes as hex, 24 as base64.
const KEY_LEAST: usize = 32;

/// A text without those of the command line's arguments that may be secrets.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    let args: Vec<String> = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    redacted_of(text, &args)
}

fn redacted_of<'t>(text: &'t str, args: &[String]) -> Cow<'t, str> {
    let mut text = Cow::Borrowed(text);
    let mut option = "";
    for arg in args {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) if is_option(name) => (name, value),
            _ => (option, arg.as_str()),
        };
        option = arg;
        let is_of_key = OPTIONS.contains(&name);
        if !(may_be_secret(value) || is_of_key && !is_path(value)) {
            continue;
        }
        // A message is one line: a value of several lines is written in it as one.
        let in_one_line = value.replace(['\n', '\r'], " ");
        let other = (in_one_line != value).then_some(in_one_line);
        for form in [Some(value.to_owned()), other].into_iter().flatten() {
            if !form.is_empty() && text.contains(form.as_str()) {
                text = Cow::Owned(without(&text, &form));
            }
        }
    }
    text
}

/// A text without that value. A plain word may be one of the message's own words too: it is left out where
/// values stand, and everywhere if it stands nowhere so.
fn without(text: &str, value: &str) -> String {
    if value.bytes().all(|b| b.is_ascii_lowercase()) {
        let is_value = |at: usize| {
            let (before, after) = (&text[..at], &text[at + value.len()..]);
            (before.is_empty() || before.ends_with('"') || before.ends_with(": "))
                && (after.is_empty() || after.starts_with([':', '"']))
        };
        let places = text.match_indices(value).map(|(at, _)| at);
        let places: Vec<usize> = places.filter(|at| is_value(*at)).collect();
        if !places.is_empty() {
            let mut left = text.to_owned();
            for at in places.into_iter().rev() {
                left.replace_range(at..at + value.len(), LEFT_OUT);
            }
            return left;
        }
    }
    text.replace(value, LEFT_OUT)
}

/// Whether a text is the name of a long option.
fn is_option(name: &str) -> bool {
    let letters = name.strip_prefix("--").unwrap_or_default();
    letters.starts_with(|c: char| c.is_ascii_lowercase())
        && letters.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Whether a text is a key by what it looks like, wherever it was given.
fn may_be_secret(text: &str) -> bool {
    if MARKS.iter().any(|mark| text.contains(mark)) {
        return true;
    }
    let key = text.trim().trim_end_matches('=');
    let is_hex = key.len() >= 2 * KEY_LEAST && key.bytes().all(|b| b.is_ascii_hexdigit());
    let is_base64 = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/_-".contains(&b));
    // 32 bytes, or a body of PEM without its head; what exists is a file.
    let has_its_length = key.len() == 43 || key.len() >= 3 * KEY_LEAST;
    is_hex || is_base64 && has_its_length && !Path::new(text).exists() && !text.starts_with('/')
}

/// Whether the value of an option that wants a key is a path, or else a public key.
fn is_path(text: &str) -> bool {
    let path = Path::new(text);
    // A name with an ending, or below a folder; a public key is `name+id+key`.
    let has_ending = path.extension().is_some_and(|e| e.len() <= 8);
    let is_below = text.contains('/') && text.len() < KEY_LEAST;
    let is_public = matches!(text.split('+').nth(1), Some(id) if id.len() == 8 && id.bytes().all(|b| b.is_ascii_hexdigit()));
    path.exists()
        || !text.contains(char::is_whitespace)
            && (has_ending || is_below || text.starts_with(['/', '.', '~']) || is_public)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(option: &str, value: &str) -> String {
        let args = ["gabion", "log", "verify", option, value].map(str::to_owned);
        let joined = ["gabion".to_owned(), format!("{option}={value}")];
        let text = format!("{value}: No such file or directory: name another").replace('\n', " ");
        let one = redacted_of(&text, &args).into_owned();
        assert_eq!(one, redacted_of(&text, &joined), "{option} {value}");
        one
    }

    #[test]
    fn secrets_in_the_place_of_paths_are_not_repeated() {
        let hex = "0123456789abcdef".repeat(4);
        let base64 = "q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4k=";
        for secret in [
            hex.as_str(),
            base64,
            "gabion-secret-x25519 q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4k=",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQ==\n-----END PRIVATE KEY-----",
        ] {
            // Whatever it was given for.
            for option in ["--vkey", "--key", "--state", "--rules", "--intel"] {
                let said = said(option, secret);
                assert!(said.starts_with(LEFT_OUT), "{said}");
                assert!(!said.contains("q83v") && !said.contains("MIIE") && !said.contains("0123"));
            }
        }
        assert!(!said("--password-file", "hunter2").contains("hunter2"));
        assert!(!said("--key", "correct horse battery staple").contains("horse"));
    }

    #[test]
    fn words_of_a_message_stay() {
        let args = ["gabion", "log", "show", "L", "--key", "reader"].map(str::to_owned);
        let own = "No such file or directory: name a file with a reader's private key";
        for (text, left) in [
            (format!("reader: {own}"), format!("{LEFT_OUT}: {own}")),
            (format!("gabion: \"reader\": {own}"), format!("gabion: \"{LEFT_OUT}\": {own}")),
            ("what reader is this".to_owned(), format!("what {LEFT_OUT} is this")),
        ] {
            assert_eq!(redacted_of(&text, &args), left);
        }
    }

    #[test]
    fn paths_and_public_keys_are() {
        for (option, value) in [
            ("--vkey", "log.example/a+1234abcd+AYyvWJT5z2ZvV0Yv"),
            ("--vkey", "gone.pub"),
            ("--key", "/etc/gabion/keys/a-long-name-of-a-file-without-an-ending-2026-11-23"),
            ("--key", "keys/reader"),
            ("--password-file", "pass.txt"),
            ("--rules", "Cases/2026-11-Incident-Report-Folder"),
            ("-l", "out"),
        ] {
            assert!(said(option, value).starts_with(value), "{option} {value}");
        }
    }
}
