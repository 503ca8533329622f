//! `gabion send`: from options to load for log servers, ours and others', and what is printed of what was
//! sent and what was acknowledged.

mod options;

pub(crate) use options::SendOptions;

use crate::exit::{Exit, Fault};
use crate::listen::by_kind;
use crate::standard_output;
use gabion_intake::{ClientTls, Endpoint, Error, Load, LoadSettings, Place, Sent};
use gabion_outputs::table::thousands;
use std::fmt::Write as _;
use std::time::Duration;

/// Messages over each transport by default.
const COUNT: u64 = 10_000;

/// Sends over all transports that were named, at the same time.
pub(crate) fn run(o: &SendOptions) -> Result<Exit, Fault> {
    let load = Load::new(settings(o)).map_err(into_fault)?;
    let endpoints = o.endpoints();
    if endpoints.is_empty() {
        return Err(Fault::usage(
            "send: no destination: name a transport, such as --udp 127.0.0.1:5514",
        ));
    }
    let all = load.send(endpoints).map_err(into_fault)?;
    let mut is_whole = true;
    let mut text = String::new();
    let mut json = Vec::new();
    for Sent { endpoint, done, seconds } in all {
        let name = endpoint.dialect.name();
        let done = done.map_err(|e| {
            Fault::environment(format!(
                "send: {}: {e}: is the server there: name the address or socket that it listens on",
                option_of(&endpoint)
            ))
        })?;
        if let Some(e) = &done.fault {
            eprintln!("gabion: send: {name}: {e}: the rest was not sent");
        }
        is_whole &= done.is_whole();
        let rate = done.sent as f64 / seconds.max(1e-9);
        let _ = write!(text, "{name}: {} sent", thousands(done.sent));
        if let Some(n) = done.acknowledged {
            let _ = write!(text, ", {} acknowledged", thousands(n));
        }
        let (failed, rate) = (thousands(done.failed), thousands(rate as u64));
        let _ = writeln!(text, ", {failed} failed, {seconds:.3} s, {rate}/s");
        let acknowledged = done.acknowledged.map_or("null".to_owned(), |n| n.to_string());
        json.push(format!(
            "{{\"transport\":\"{name}\",\"sent\":{},\"acknowledged\":{acknowledged},\"failed\":{},\"seconds\":{seconds:.6}}}",
            done.sent, done.failed
        ));
    }
    if o.json {
        standard_output::line(format_args!("{{\"transports\":[{}]}}", json.join(",")));
    } else {
        standard_output::text(text);
    }
    Ok(if is_whole { Exit::Done } else { Exit::No })
}

fn settings(o: &SendOptions) -> LoadSettings {
    let tls = o.tls_ca.as_ref().map(|authorities| ClientTls {
        authorities: authorities.clone(),
        shown: o.tls_cert.clone().zip(o.tls_key.clone()),
        server_name: o.tls_name.clone(),
    });
    LoadSettings {
        text: o.text.clone(),
        is_raw: o.raw,
        size: o.size,
        // Without end: as many as there are numbers for, a million years of them.
        count: o.count.unwrap_or(if o.seconds.is_some() { u64::MAX >> 8 } else { COUNT }),
        lasts: o.seconds.map(Duration::from_secs),
        rate: o.rate,
        connections: o.connections,
        connection_each: o.connection_each,
        octet_counting: o.octet_counting,
        envelope_key: o.slog_key.clone(),
        tls,
    }
}

/// A transport with where it sends to, as the command line has it.
fn option_of(endpoint: &Endpoint) -> String {
    let name = endpoint.dialect.name();
    match &endpoint.place {
        Place::Address(address) => format!("--{name} {address}"),
        Place::Path(path) => format!("--{name} {}", path.display()),
    }
}

fn into_fault(e: Error) -> Fault {
    match e {
        Error::ServerName { .. } => Fault::usage(format!("--tls-name: {e}")),
        e => by_kind(&e),
    }
}
