//! What is reported while a configuration and its rules are read: each message has a severity and the
//! module of Suricata that reports it there. The caller that reads the configuration decides where messages go.

use gabion_net::script::Severity;

/// Takes messages.
pub struct Messages<'a>(&'a mut dyn FnMut(Severity, &str, &str));

impl std::fmt::Debug for Messages<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Messages")
    }
}

impl<'a> Messages<'a> {
    /// Messages go to this function: severity, module, text.
    pub fn new(report: &'a mut dyn FnMut(Severity, &str, &str)) -> Messages<'a> {
        Messages(report)
    }

    pub(crate) fn error(&mut self, module: &str, text: &str) {
        (self.0)(Severity::Error, module, text);
    }

    pub(crate) fn warning(&mut self, module: &str, text: &str) {
        (self.0)(Severity::Warning, module, text);
    }

    pub(crate) fn notice(&mut self, module: &str, text: &str) {
        (self.0)(Severity::Notice, module, text);
    }

    pub(crate) fn info(&mut self, module: &str, text: &str) {
        (self.0)(Severity::Info, module, text);
    }
}
