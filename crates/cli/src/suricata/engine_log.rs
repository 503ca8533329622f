//! The engine's own messages, on the console as the peer writes them (`E: detect: …`) and as JSON
//! lines where the configuration asks for a file.

use gabion_outputs::timestamp::Stamp;
use gabion_record::Tree;
use gabion_record::json::Json;
use std::io::Write;
use std::path::Path;

/// Where messages go.
pub(crate) struct EngineLog {
    files: Vec<(std::fs::File, bool)>,
    verbose: u32,
    stamp: Stamp,
}

impl EngineLog {
    /// Opens the files of `logging.outputs`.
    pub(crate) fn open(config: &Tree, folder: &Path, verbose: u32) -> EngineLog {
        let mut files = Vec::new();
        if let Some(list) = config.get("logging.outputs") {
            for node in list.items("file") {
                if node.flag("enabled") != Some(true) {
                    continue;
                }
                let name = node.text("filename").unwrap_or("suricata.log");
                let path =
                    if Path::new(name).is_absolute() { name.into() } else { folder.join(name) };
                let json = matches!(node.text("type").or(node.text("format")), Some("json"));
                if let Ok(f) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
                    files.push((f, json));
                }
            }
        }
        EngineLog { files, verbose, stamp: Stamp::new() }
    }

    fn write(&mut self, letter: char, level: &str, module: &str, message: &str) {
        // Errors go to standard error, all else to standard output: what scripts around the peer
        // look for stands there.
        let line = format!("{letter}: {module}: {message}\n");
        // A console that is gone must not stop the run.
        let _ = match letter {
            'E' => std::io::stderr().write_all(line.as_bytes()),
            _ => std::io::stdout().write_all(line.as_bytes()),
        };
        self.write_files(letter, level, module, message);
    }

    fn write_files(&mut self, letter: char, level: &str, module: &str, message: &str) {
        if self.files.is_empty() {
            return;
        }
        let mut at = Vec::new();
        self.stamp.iso(crate::stats::now_ns(), &mut at);
        let mut j = Json::new();
        j.open();
        j.field("timestamp", &at);
        j.field_plain("log_level", level);
        j.field_plain("event_type", "engine");
        j.open_key("engine");
        j.field("message", message);
        j.field_plain("thread_name", "Suricata-Main");
        j.field("module", module);
        j.close();
        j.close();
        for (f, json) in &mut self.files {
            let line = match json {
                true => j.bytes().to_vec(),
                false => {
                    format!("[{}] {letter}: {module}: {message}", String::from_utf8_lossy(&at))
                        .into_bytes()
                }
            };
            // A log file that can't be written must not stop the run; the console has the message.
            let _ = f.write_all(&line).and_then(|()| f.write_all(b"\n"));
        }
    }

    pub(crate) fn error(&mut self, module: &str, message: &str) {
        self.write('E', "Error", module, message);
    }

    pub(crate) fn warning(&mut self, module: &str, message: &str) {
        self.write('W', "Warning", module, message);
    }

    pub(crate) fn notice(&mut self, module: &str, message: &str) {
        self.write('i', "Notice", module, message);
    }

    pub(crate) fn info(&mut self, module: &str, message: &str) {
        if self.verbose > 0 {
            let _ = writeln!(std::io::stdout(), "i: {module}: {message}");
        }
        self.write_files('i', "Info", module, message);
    }

    /// Ends the log.
    pub(crate) fn finish(self) {}
}
