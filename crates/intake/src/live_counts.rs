//! The counts of a running log server, read from the address of its metrics: for each stage, the number of
//! messages that it received, passed on, still holds, and lost for which reason.

use crate::limits::METRICS_BYTES_MAX;
use gabion_record::json::Json;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// One stage.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stage {
    received: u64,
    passed: u64,
    in_flight: u64,
    shed: BTreeMap<String, u64>,
}

/// Why there are no counts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveCountsError {
    /// Nothing answers there.
    #[error("{address}: {source}: is `gabion listen --metrics {address}` running?")]
    NoAnswer {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// What answers writes more than a log server does.
    #[error(
        "{address}: answers more than {METRICS_BYTES_MAX} bytes: not the metrics of `gabion listen`"
    )]
    TooLong {
        /// The address.
        address: SocketAddr,
    },
    /// What answers is something else.
    #[error("{address}: not the metrics of `gabion listen`")]
    NoMetrics {
        /// The address.
        address: SocketAddr,
    },
}

/// The counts of a running log server.
#[derive(Debug, PartialEq, Eq)]
pub struct LiveCounts(BTreeMap<String, Stage>);

impl LiveCounts {
    /// Asks the server whose metrics are at this address.
    ///
    /// # Errors
    /// When nothing answers, or something that is no log server.
    pub fn ask(address: SocketAddr) -> Result<LiveCounts, LiveCountsError> {
        let failed = |source: io::Error| LiveCountsError::NoAnswer { address, source };
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        write!(stream, "GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").map_err(failed)?;
        let mut answer = String::new();
        stream.take(METRICS_BYTES_MAX + 1).read_to_string(&mut answer).map_err(failed)?;
        if answer.len() as u64 > METRICS_BYTES_MAX {
            return Err(LiveCountsError::TooLong { address });
        }
        let text = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        let stages = read_stages(text);
        if stages.is_empty() {
            return Err(LiveCountsError::NoMetrics { address });
        }
        Ok(LiveCounts(stages))
    }

    /// A line for each stage, each ended.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, stage) in &self.0 {
            text.push_str(&format!(
                "{name}: {} received, {} passed on",
                stage.received, stage.passed
            ));
            if stage.in_flight > 0 {
                text.push_str(&format!(", {} on their way", stage.in_flight));
            }
            stage.shed.iter().for_each(|(reason, n)| text.push_str(&format!(", {n} {reason}")));
            text.push('\n');
        }
        text
    }

    /// One JSON object.
    pub fn json(&self) -> Vec<u8> {
        to_json(&self.0)
    }
}

/// Reads the text form of Prometheus, as far as a listener writes it.
fn read_stages(text: &str) -> BTreeMap<String, Stage> {
    let mut stages: BTreeMap<String, Stage> = BTreeMap::new();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once('{') else { continue };
        let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
        let Ok(value) = value.trim().parse::<u64>() else { continue };
        let label = |wanted: &str| {
            let start = labels.find(&format!("{wanted}=\""))? + wanted.len() + 2;
            labels.get(start..)?.split('"').next()
        };
        // Listeners before 0.1 called a stage `joint`.
        let of_stage = name.strip_prefix("gabion_stage_").zip(label("stage"));
        let Some((name, stage)) =
            of_stage.or_else(|| name.strip_prefix("gabion_joint_").zip(label("joint")))
        else {
            continue;
        };
        let stage = stages.entry(stage.to_owned()).or_default();
        match name {
            "received_items_total" => stage.received += value,
            "passed_items_total" => stage.passed += value,
            "in_flight_items" => stage.in_flight += value,
            "shed_items_total" if value > 0 => {
                let reason = label("reason").unwrap_or_default().to_owned();
                *stage.shed.entry(reason).or_default() += value;
            }
            _ => {}
        }
    }
    stages
}

fn to_json(stages: &BTreeMap<String, Stage>) -> Vec<u8> {
    let mut json = Json::new();
    json.open();
    json.open_array_key("stages");
    for (name, stage) in stages {
        json.open();
        json.field("stage", name);
        json.number("received", stage.received);
        json.number("passed", stage.passed);
        json.number("in_flight", stage.in_flight);
        json.open_key("shed");
        stage.shed.iter().for_each(|(reason, n)| json.number(reason, *n));
        json.close();
        json.close();
    }
    json.close_array();
    json.close();
    json.take_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_metrics_is_read() {
        let text = "# TYPE gabion_stage_received_items_total counter\n\
                    gabion_stage_received_items_total{stage=\"listen.udp.0\"} 12\n\
                    gabion_stage_passed_items_total{stage=\"listen.udp.0\"} 9\n\
                    gabion_stage_in_flight_items{stage=\"listen.udp.0\"} 1\n\
                    gabion_stage_shed_items_total{stage=\"listen.udp.0\",reason=\"kernel_drop\"} 2\n\
                    gabion_stage_shed_items_total{stage=\"listen.udp.0\",reason=\"stopped\"} 0\n\
                    gabion_flows 7\nnonsense{\n";
        let stages = read_stages(text);
        let old = text.replace("gabion_stage_", "gabion_joint_").replace("{stage=", "{joint=");
        assert_eq!(read_stages(&old), stages);
        let shed = BTreeMap::from([("kernel_drop".to_owned(), 2)]);
        let stage = Stage { received: 12, passed: 9, in_flight: 1, shed };
        assert_eq!(stages, BTreeMap::from([("listen.udp.0".to_owned(), stage)]));
        assert_eq!(
            String::from_utf8(to_json(&stages)).unwrap(),
            r#"{"stages":[{"stage":"listen.udp.0","received":12,"passed":9,"in_flight":1,"shed":{"kernel_drop":2}}]}"#
        );
    }
}
