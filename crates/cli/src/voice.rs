//! Where scripts speak when there is no engine log.

use gabion_net::{ScriptSetup, Severity, Voice};
use gabion_record::Tree;

/// What scripts need; their messages go to standard error.
pub(crate) fn script_setup(config: &Tree) -> ScriptSetup {
    let voice = Voice::new(|severity, who, text| match severity {
        Severity::Info | Severity::Debug => {}
        Severity::Error | Severity::Warning | Severity::Notice => {
            eprintln!("gabion: {who}: {text}");
        }
        Severity::Print => eprintln!("{text}"),
    });
    gabion_settings::script_setup(config, voice)
}
