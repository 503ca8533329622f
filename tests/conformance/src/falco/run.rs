//! Runs the program of one test in a scratch folder.

use super::{Action, Test};
use anyhow::{Context, Result};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What a program left behind.
#[derive(Debug)]
pub struct Finished {
    /// The exit code; none if a signal or the time limit ended it.
    pub exit_code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Addresses that answered with success.
    pub fetched: Vec<String>,
    /// The scratch folder.
    pub scratch: TempDir,
}

/// Runs a test. `folder` holds the tests, `captures` the capture files.
///
/// # Errors
/// The program cannot be started, or a file cannot be written.
pub fn run(
    test: &Test,
    binary: &Path,
    folder: &Path,
    captures: &Path,
    limit: Duration,
) -> Result<Finished> {
    let scratch = tempfile::tempdir()?;
    // The program finds out by its name that it is to answer as Falco.
    let program = scratch.path().join("falco");
    std::os::unix::fs::symlink(binary.canonicalize()?, &program)?;
    let config = match (&test.config, &test.config_inline) {
        (Some(name), _) => folder.join(name),
        (None, inline) => {
            let path = scratch.path().join("falco.yaml");
            fs::write(&path, inline.as_deref().unwrap_or_default())?;
            path
        }
    };
    let mut command = Command::new(&program);
    command.current_dir(scratch.path()).stdin(Stdio::null());
    command.arg("-c").arg(&config).args(["-o", "append_output.suggested_output=false"]);
    for arg in &test.args {
        command.arg(expanded(arg, folder, scratch.path()));
    }
    if let Some(capture) = &test.capture {
        let path = captures.join(capture);
        command.args(["-o", "engine.kind=replay", "-o"]);
        command.arg(format!("engine.replay.capture_file={}", path.display()));
    }
    for option in
        ["log_level=debug", "log_stderr=true", "log_syslog=false", "stdout_output.enabled=true"]
    {
        command.args(["-o", option]);
    }
    let port =
        test.action.as_ref().and_then(|action| action.http_get.as_ref()).map(|_| free_port());
    let port = port.transpose()?;
    if let Some(port) = port {
        command.args(["-o", &format!("webserver.listen_port={port}")]);
    }
    command.envs(test.environment.iter().map(|(k, v)| (k, v)));
    let files = (scratch.path().join("stdout"), scratch.path().join("stderr"));
    command.stdout(fs::File::create(&files.0)?).stderr(fs::File::create(&files.1)?);
    let mut child =
        command.spawn().with_context(|| format!("cannot start {}", binary.display()))?;
    let mut fetched = Vec::new();
    if let Some(action) = &test.action {
        act(action, &config, port, &mut fetched)?;
    }
    let exit_code = wait(&mut child, limit)?;
    let read = |path: &PathBuf| -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
    };
    Ok(Finished { exit_code, stdout: read(&files.0)?, stderr: read(&files.1)?, fetched, scratch })
}

/// Puts folders in the place of `@rules/` and `@tmp/`.
pub(super) fn expanded(text: &str, folder: &Path, scratch: &Path) -> String {
    text.replace("@rules/", &format!("{}/", folder.join("rules").display()))
        .replace("@tmp/", &format!("{}/", scratch.display()))
}

/// Falco's port of the listener, which tests name.
const FALCOS_PORT: &str = ":8765/";

/// A port that nothing listens on, so that tests and a Falco on this machine do not meet.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn act(action: &Action, config: &Path, port: Option<u16>, fetched: &mut Vec<String>) -> Result<()> {
    std::thread::sleep(Duration::from_secs(action.after_s));
    if let Some(text) = &action.append_to_config {
        fs::OpenOptions::new().append(true).open(config)?.write_all(text.as_bytes())?;
    }
    if let (Some(address), Some(port)) = (&action.http_get, port)
        && fetch(&address.replace(FALCOS_PORT, &format!(":{port}/"))).unwrap_or(false)
    {
        fetched.push(address.clone());
    }
    Ok(())
}

/// Whether an address answers with success.
fn fetch(address: &str) -> Result<bool> {
    let rest = address.strip_prefix("http://").context("only http")?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer.starts_with(b"HTTP/1.1 200"))
}

fn wait(child: &mut Child, limit: Duration) -> Result<Option<i32>> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if begin.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
