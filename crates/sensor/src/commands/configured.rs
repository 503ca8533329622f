//! Whether a configuration asks for a command socket, and where.

use super::{CommandContext, CommandServer, CommandSocket};
use gabion_record::Tree;
use gabion_settings::EngineLog;
use std::io;
use std::path::Path;

/// Where Suricata has its socket, and its name.
const FOLDER: &str = "/var/run/suricata";
const NAME: &str = "suricata-command.socket";

/// Serves the socket that the configuration asks for; `unix-command.enabled: auto` asks for it where an interface is read.
/// Without the socket the run continues and a warning says why, as in Suricata, unless `is_strict` (`--init-errors-fatal`)
/// is true. Other than Suricata's, the socket of a run that still listens is left to that run.
///
/// # Errors
/// Why there are no commands, if `is_strict` is true; it was logged.
pub fn serve_configured(
    context: CommandContext,
    is_strict: bool,
    log: &mut EngineLog,
) -> io::Result<Option<CommandServer>> {
    let config: &Tree = &context.config;
    let is_demanded = config.flag("unix-command.enabled") == Some(true);
    let is_automatic = config.text("unix-command.enabled") == Some("auto");
    if !(is_demanded || is_automatic && context.is_live) {
        return Ok(None);
    }
    let name = config.text("unix-command.filename").unwrap_or(NAME);
    let path = Path::new(FOLDER).join(name);
    let shown = path.display();
    match CommandSocket::bind(&path).and_then(|socket| socket.serve(context)) {
        Ok(server) => {
            log.info("unix-manager", &format!("unix socket '{shown}'"));
            Ok(Some(server))
        }
        Err(e) => {
            let message = format!(
                "{shown}: cannot listen for commands: {e}: set unix-command.filename to another path, or \
                 unix-command.enabled to no"
            );
            if is_strict {
                log.error("unix-manager", &message);
                return Err(e);
            }
            log.warning("unix-manager", &format!("{message} (the run continues without commands)"));
            Ok(None)
        }
    }
}
