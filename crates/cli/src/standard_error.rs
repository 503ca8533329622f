//! What runs and scripts report on standard error.

use crate::exit::Fault;
use gabion_net::script::{ScriptSetup, Severity, Voice};
use gabion_record::Tree;
use gabion_sensor::packets::{Incident, LoadRequest, Watch};
use gabion_sensor::{Notice, Notices};

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

/// Notices of a run over flows.
pub(crate) fn notices() -> Notices {
    Notices::new(|notice| match notice {
        Notice::Line(line) => eprintln!("gabion: {line}"),
        Notice::Failed(e, effect) => eprintln!("{}: {effect}", Fault::input(e)),
    })
}

/// Watches a packet run and reports what happens to its workers.
#[derive(Default)]
pub(crate) struct Incidents {
    /// Interfaces whose packets are not read yet.
    pub(crate) awaited: Vec<String>,
}

impl Watch for Incidents {
    fn position(&mut self, _: usize, _: u64, _: Option<u64>) {
        self.awaited.drain(..).for_each(|name| eprintln!("gabion: {name}: packets are read"));
    }

    fn note(&mut self, note: &str) {
        eprintln!("gabion: {note}");
    }

    fn incident(&mut self, incident: &Incident) {
        report_incident(incident);
    }

    fn reload(&mut self, request: Option<LoadRequest>) {
        report_reload(request);
    }
}

/// Reports what happened to a worker.
pub(crate) fn report_incident(incident: &Incident) {
    eprintln!("gabion: {}", incident.line());
}

/// Answers a request for other rules; none where the run can't load any.
pub(crate) fn report_reload(request: Option<LoadRequest>) {
    let said = request.map_or(Some(Incident::NOT_RELOADED), LoadRequest::note);
    if let Some(said) = said {
        eprintln!("gabion: {said}");
    }
}
