//! Runs the tries and looks at what is answered.

use crate::ground::Ground;
use crate::wrong::Try;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Much longer than any answer takes, on a loaded machine too.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is wrong with the answers, a line each.
pub fn weak(ground: &Ground, tries: &[Try]) -> Vec<String> {
    let before = ground.snapshot();
    let mut weak = Vec::new();
    for one in tries {
        let (status, err) = run(ground, one);
        let mut faults = faults(one, status, &err);
        if ground.snapshot() != before {
            let after = ground.snapshot();
            let left = after.iter().filter(|(path, length)| before.get(*path) != Some(*length));
            let left: Vec<String> = left.map(|(path, _)| path.display().to_string()).collect();
            faults.push(format!("left behind: {}", left.join(", ")));
            ground.clean(&before);
        }
        if !faults.is_empty() {
            let args: Vec<String> = one.args.iter().map(|a| a.display().to_string()).collect();
            weak.push(format!(
                "gabion {}\n    {}\n    {}",
                args.join(" "),
                faults.join("; "),
                err.trim_end()
            ));
        }
    }
    weak
}

/// Runs one; no status when it had to be killed.
fn run(ground: &Ground, one: &Try) -> (Option<ExitStatus>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gabion"))
        .args(&one.args)
        .current_dir(ground.cwd())
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stderr.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let began = Instant::now();
    let mut is_fed = !one.is_fifo;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        // Opens as soon as somebody reads, and is closed at once.
        if !is_fed {
            let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
            let open =
                OpenOptions::new().write(true).custom_flags(nonblocking).open(ground.path("fifo"));
            is_fed = open.is_ok();
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    (status, said.join().unwrap())
}

fn faults(one: &Try, status: Option<ExitStatus>, err: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |said: String| faults.push(said);
    let Some(status) = status else { return vec!["did not end".to_owned()] };
    match (status.code(), status.signal()) {
        (Some(code), _) if one.codes.contains(&code) => {}
        (Some(code), _) => fault(format!("exit code {code}, not one of {:?}", one.codes)),
        (None, signal) => fault(format!("killed by signal {signal:?}")),
    }
    if err.contains("panicked") {
        fault("panicked".to_owned());
    }
    // Lines about good rules and about a socket's buffer are no answer.
    let is_other =
        |line: &&str| line.starts_with("gabion: rules: ") || line.contains("receive buffer");
    let lines: Vec<&str> = err.lines().filter(|line| !is_other(line)).collect();
    let is_suricata = one.place.0 == "suricata";
    if lines.len() != 1 && !is_suricata {
        fault(format!("{} lines instead of one", lines.len()));
    }
    let value = one.value.display().to_string();
    let option = one.place.1;
    // What may be a secret is not repeated.
    let is_redacted = err.contains("may be a secret");
    let value = if is_redacted { String::new() } else { value };
    // Where: the option by its name, or the file by its own.
    let is_path = value.contains('/') || value.contains('\u{fffd}');
    let names = |line: &&str| {
        let has_value = line.contains(value.as_str());
        let has_value = has_value || line.contains(&value.replace(char::is_control, "."));
        if is_suricata {
            // The words are that program's, which scripts look for; they name the value.
            return has_value;
        }
        let has_option = !option.starts_with('-') || line.contains(option);
        has_value && (has_option || is_path || is_redacted)
    };
    match lines.iter().find(|line| names(line)) {
        None => fault(format!("no line names {option} and {value:?}")),
        Some(line) => {
            if !is_suricata && !line.starts_with("gabion: ") {
                fault("does not begin with gabion: ".to_owned());
            }
            if !is_suricata && line.chars().any(char::is_control) {
                fault("holds control characters".to_owned());
            }
            if !is_suricata && !one.says.iter().any(|word| line.contains(word)) {
                fault(format!("says none of {:?}", one.says));
            }
        }
    }
    faults
}
