//! What the page about a recording shows: the two graphs of 2004 on one clock, then six strips over the whole recording,
//! then the same around the begin of each incident.

use gabion_guard::recording::{Recording, XdpColumn};
use gabion_guard::strips::{CpuStrip, Strips};
use gabion_guard::{Diagnosis, Incident, quantile};
use gabion_outputs::page::strips::{Figures, Layer, Panel, Strip, StripPage};
use std::path::PathBuf;

/// Incidents whose begin has a panel of its own.
const ZOOMED: usize = 6;
/// CPUs that have a strip.
const CPUS_SHOWN: usize = 4;
/// Bins of the two graphs.
const GRAPH_BINS: u64 = 1000;
/// The length of a bin over the whole recording, and around an incident, in microseconds.
const BINS_US: (u64, u64) = (100_000, 4000);
/// Milliseconds before and after the begin of an incident.
const AROUND_MS: u64 = 1000;

const INLINE: &str = "#5fa8d3";
const KSOFTIRQD: &str = "#d8572a";
const THREAD: &str = "#8c6bb1";
const PASSED: &str = "#5f9e6e";
const DROPPED: &str = "#e9b44c";
const REFUSED: &str = "#d8572a";
const WAITING: &str = "#9fb3c8";

/// What the page is about.
pub(super) struct About<'a> {
    pub(super) files: &'a [PathBuf],
    pub(super) recording: &'a Recording,
    pub(super) found: &'a Diagnosis,
    pub(super) budget_percent: u8,
    pub(super) lines: &'a [String],
    pub(super) warnings: &'a [String],
}

/// The page; `moment` is how a moment of the recording is written.
pub(super) fn page(about: &About<'_>, moment: &dyn Fn(u64) -> String) -> StripPage {
    let found = about.found;
    let (first, last) = found.span_ms;
    let whole = (first, last.saturating_add(8));
    let mut panels =
        vec![graphs(about, whole), panel(about, "whole", "The whole recording", whole)];
    for incident in found.incidents.iter().take(ZOOMED) {
        let from = incident.began_ms.saturating_sub(AROUND_MS).max(first);
        let to = incident.began_ms.saturating_add(AROUND_MS).min(whole.1);
        let id = format!("incident-{}", incident.number);
        let heading =
            format!("The begin of incident {} at {}", incident.number, moment(incident.began_ms));
        panels.push(panel(about, &id, &heading, (from, to)));
    }
    let names: Vec<String> = about.files.iter().map(|file| file.display().to_string()).collect();
    let seconds = last.saturating_sub(first) as f64 / 1000.0;
    let mut notes: Vec<(String, String)> = vec![
        ("Rows by CPU".to_owned(), about.recording.buckets.len().to_string()),
        ("Rows of XDP counters".to_owned(), about.recording.xdp.len().to_string()),
    ];
    notes.extend(about.recording.head.iter().map(|(key, value)| (key.clone(), value.clone())));
    notes.extend(about.warnings.iter().map(|text| ("Note".to_owned(), text.clone())));
    notes.push((
        "About veth".to_owned(),
        "on a veth pair XDP runs on the sender's CPU, so that a drop costs the receiver nothing; on a network card it runs \
         on the CPU of the queue's interrupt, and a drop costs 20 to 120 ns there"
            .to_owned(),
    ));
    StripPage {
        title: "Gabion guard: softirqs, grace periods and gaps on one clock".to_owned(),
        origin: format!("of {} · {seconds:.1} s", names.join(", ")),
        diagnosis: about.lines.to_vec(),
        panels,
        tables: vec![figures(about)],
        notes,
    }
}

/// The two graphs of 2004: the longest grace period and the number of softirqs in buckets of about 4 ms.
fn graphs(about: &About<'_>, span_ms: (u64, u64)) -> Panel {
    let span_us = span_ms.1.saturating_sub(span_ms.0).saturating_mul(1000);
    let bin_us = (span_us / GRAPH_BINS).next_multiple_of(BINS_US.1).max(BINS_US.1);
    let strips = strips(about, span_ms, bin_us);
    let grace = match &strips.grace_us {
        Some(us) => Strip {
            layers: vec![Layer {
                values: us.iter().map(|us| Some(f64::from(*us) / 1000.0)).collect(),
                colour: WAITING,
                ..Layer::default()
            }],
            ..Strip::default()
        },
        None => absent("no grace periods in this recording"),
    };
    let grace = Strip { caption: "Longest grace period of RCU".to_owned(), unit: "ms", ..grace };
    let runs = match strips.cpus.first() {
        Some(cpu) => Strip {
            caption: format!("Runs of NET_RX on CPU {} in a bucket of 4 ms", cpu.cpu),
            layers: vec![Layer {
                values: cpu.runs.iter().map(|n| Some(f64::from(*n))).collect(),
                colour: KSOFTIRQD,
                ..Layer::default()
            }],
            ..Strip::default()
        },
        None => Strip {
            caption: "Runs of NET_RX".to_owned(),
            ..absent("no softirqs in this recording")
        },
    };
    Panel {
        id: "graphs".to_owned(),
        heading: "Grace periods and softirqs, as in 2004".to_owned(),
        note: "The question of March 2004 was whether long grace periods come with many softirqs: both are drawn on one \
               axis. A grey background is an incident."
            .to_owned(),
        span_ms,
        marked_ms: marked(about.found),
        strips: vec![grace, runs],
    }
}

fn strips(about: &About<'_>, (from, to): (u64, u64), bin_us: u64) -> Strips {
    let span = (from.saturating_mul(1000), to.saturating_mul(1000));
    Strips::over(about.recording, about.found, span, bin_us)
}

fn marked(found: &Diagnosis) -> Vec<(u64, u64)> {
    found.incidents.iter().map(|i| (i.began_ms, i.last_ms)).collect()
}

fn absent(why: &str) -> Strip {
    Strip { absent: Some(why.to_owned()), ..Strip::default() }
}

fn layer(name: &str, colour: &'static str, values: Vec<Option<f64>>, is_stacked: bool) -> Layer {
    Layer { name: name.to_owned(), colour, values, is_stacked }
}

/// The six strips of a stretch of time.
fn panel(about: &About<'_>, id: &str, heading: &str, span_ms: (u64, u64)) -> Panel {
    let is_whole = id == "whole";
    let bin_us = if is_whole { BINS_US.0 } else { BINS_US.1 };
    let data = strips(about, span_ms, bin_us);
    let mut all: Vec<Strip> = data
        .cpus
        .iter()
        .take(CPUS_SHOWN)
        .map(|cpu| packet_work(cpu, about.budget_percent))
        .collect();
    if all.is_empty() {
        all.push(Strip {
            caption: "1. Packet work".to_owned(),
            ..absent("no softirqs in this recording")
        });
    }
    all.push(packets(&data));
    all.push(gaps(&data));
    all.push(grace(&data, about.found));
    all.extend(drops(&data));
    all.extend(set(about, &data));
    let ms = data.bin_us as f64 / 1000.0;
    Panel {
        id: id.to_owned(),
        heading: heading.to_owned(),
        note: format!("Each bin is {ms:.0} ms. A grey background is an incident."),
        span_ms,
        marked_ms: marked(about.found),
        strips: all,
    }
}

fn packet_work(cpu: &CpuStrip, budget_percent: u8) -> Strip {
    let percent = |values: &[Option<f64>]| values.iter().map(|v| v.map(|v| v * 100.0)).collect();
    Strip {
        caption: format!("1. Packet work of CPU {} (NET_RX and NAPI threads)", cpu.cpu),
        unit: "%",
        max: Some(100.0),
        layers: vec![
            layer("inline", INLINE, percent(&cpu.inline), false),
            layer("in ksoftirqd", KSOFTIRQD, percent(&cpu.ksoftirqd), true),
            layer("in a NAPI thread", THREAD, percent(&cpu.thread), true),
        ],
        line: Some((f64::from(budget_percent), format!("budget {budget_percent} %"))),
        absent: None,
    }
}

fn packets(data: &Strips) -> Strip {
    let kilo = |values: &[f64]| values.iter().map(|v| Some(v / 1000.0)).collect();
    let strip = match (&data.packets, &data.polled) {
        (Some(packets), _) => Strip {
            layers: vec![
                layer("passed", PASSED, kilo(&packets.passed), false),
                layer("dropped by the budget", DROPPED, kilo(&packets.dropped_budget), true),
                layer(
                    "dropped by a limit of new flows",
                    REFUSED,
                    kilo(&packets.dropped_limit),
                    true,
                ),
            ],
            ..Strip::default()
        },
        (None, Some(polled)) => {
            Strip { layers: vec![layer("polled", PASSED, kilo(polled), false)], ..Strip::default() }
        }
        (None, None) => absent("no counters of packets in this recording"),
    };
    Strip { caption: "2. Packets".to_owned(), unit: "kpps", ..strip }
}

fn gaps(data: &Strips) -> Strip {
    let strip = match &data.gaps {
        Some(gaps) => Strip {
            layers: vec![
                layer(
                    "packet work inside it",
                    KSOFTIRQD,
                    gaps.iter().map(|(_, packet)| Some(f64::from(*packet) / 1000.0)).collect(),
                    false,
                ),
                layer(
                    "the rest",
                    WAITING,
                    gaps.iter()
                        .map(|(gap, packet)| Some(f64::from(gap.saturating_sub(*packet)) / 1000.0))
                        .collect(),
                    true,
                ),
            ],
            ..Strip::default()
        },
        None => absent("no gap probe in this recording"),
    };
    Strip { caption: "3. Largest gap of a user program".to_owned(), unit: "ms", ..strip }
}

fn grace(data: &Strips, found: &Diagnosis) -> Strip {
    let strip = match &data.grace_us {
        Some(us) => Strip {
            layers: vec![layer(
                "",
                WAITING,
                us.iter().map(|us| Some(f64::from(*us) / 1000.0)).collect(),
                false,
            )],
            line: quantile(&found.calm_grace_us, 0.99).map(|us| {
                let ms = f64::from(us) / 1000.0;
                (ms, format!("99th percentile of calm time, {ms:.1} ms"))
            }),
            ..Strip::default()
        },
        None => absent("no grace periods in this recording"),
    };
    Strip { caption: "4. Longest grace period of RCU".to_owned(), unit: "ms", ..strip }
}

fn drops(data: &Strips) -> Vec<Strip> {
    let mut all = Vec::new();
    if let Some(dropped) = &data.backlog_dropped {
        let values = dropped.iter().map(|n| Some(n / 1000.0)).collect();
        all.push(Strip {
            caption: "5. Packets dropped by the backlog".to_owned(),
            unit: "k/s",
            layers: vec![layer("", REFUSED, values, false)],
            ..Strip::default()
        });
    }
    for (table, fills) in &data.tables {
        let values = fills.iter().map(|fill| fill.map(|fill| fill * 100.0)).collect();
        all.push(Strip {
            caption: format!("5. How full the table {} is", table.name()),
            unit: "%",
            max: Some(100.0),
            layers: vec![layer("", DROPPED, values, false)],
            ..Strip::default()
        });
    }
    if all.is_empty() {
        all.push(Strip {
            caption: "5. Drops and tables".to_owned(),
            ..absent("no such counters in this recording")
        });
    }
    all
}

/// The rung and the set point: what the recording says that was in force.
fn set(about: &About<'_>, data: &Strips) -> Vec<Strip> {
    let Some(packets) = &data.packets else {
        return vec![Strip {
            caption: "6. Rung and set point".to_owned(),
            ..absent("no throttle in this recording")
        }];
    };
    let mut all = Vec::new();
    let at = |bin: usize| data.from_us.saturating_add(data.bin_us.saturating_mul(bin as u64 + 1));
    let recorded = |column| -> Option<Vec<Option<f64>>> {
        about.recording.xdp_columns.has(column).then(|| {
            let rows = &about.recording.xdp;
            let value = |bin| {
                let end = rows.partition_point(|row| row.at_us < at(bin));
                Some(rows.get(end.checked_sub(1)?)?.get(column)? as f64)
            };
            (0..data.bins).map(value).collect()
        })
    };
    if let Some(values) = recorded(XdpColumn::Rung) {
        all.push(Strip {
            caption: "6. Rung: 0 observe, 1 native, 2 generic, 3 advise".to_owned(),
            max: Some(3.0),
            layers: vec![layer("", THREAD, values, false)],
            ..Strip::default()
        });
    }
    if let Some(values) = recorded(XdpColumn::NewFlowLimit) {
        all.push(Strip {
            caption: "6. Limit of new flows (0: none)".to_owned(),
            unit: "/s",
            layers: vec![layer("", DROPPED, values, false)],
            ..Strip::default()
        });
    }
    all.push(Strip {
        caption: "6. Set point: what each packet is charged".to_owned(),
        unit: "ns",
        layers: vec![layer(
            "",
            THREAD,
            packets.cost_ns.iter().map(|ns| ns.map(|ns| ns as f64)).collect(),
            false,
        )],
        ..Strip::default()
    });
    all
}

/// The figures of calm time and of each incident.
fn figures(about: &About<'_>) -> Figures {
    let found = about.found;
    let mut rows = vec![calm_row(about)];
    rows.extend(found.incidents.iter().map(|incident| incident_row(found, incident)));
    let columns = [
        "Phase",
        "Packet work",
        "In ksoftirqd",
        "Packets a second",
        "Largest gap, ms",
        "Packet work in one gap, ms",
        "Longest grace period, ms",
        "Dropped by the guard",
    ];
    Figures {
        heading: "Calm time and incidents".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }
}

/// A phase that is measured from its gaps and grace periods alone.
fn calm_row(about: &About<'_>) -> Vec<String> {
    let found = about.found;
    let is_calm = |us: u64| {
        let at_ms = us / 1000;
        !found.incidents.iter().any(|i| (i.began_ms..i.last_ms).contains(&at_ms))
    };
    let gaps = || found.gaps.iter().filter(|gap| is_calm(gap.at_us));
    let ms = |us: Option<u32>| {
        us.map_or("–".to_owned(), |us| format!("{:.1}", f64::from(us) / 1000.0))
    };
    vec![
        "calm time".to_owned(),
        "–".to_owned(),
        "–".to_owned(),
        "–".to_owned(),
        ms(gaps().map(|gap| gap.gap_us).max()),
        ms(gaps().map(|gap| gap.packet_us).max()),
        ms(found.calm_grace_us.last().copied()),
        "–".to_owned(),
    ]
}

fn incident_row(found: &Diagnosis, incident: &Incident) -> Vec<String> {
    let totals = &incident.totals;
    let busiest = totals.busiest().filter(|(_, cpu)| cpu.covered_us > 0);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let dash = || "–".to_owned();
    let ms =
        |us: u32| if us == 0 { "–".to_owned() } else { format!("{:.1}", f64::from(us) / 1000.0) };
    let span = incident.began_ms.saturating_mul(1000)..incident.last_ms.saturating_mul(1000);
    let inside = found.gaps.iter().filter(|gap| span.contains(&gap.at_us));
    let gap = totals.cpus.values().map(|cpu| cpu.gap_us).max().unwrap_or(0);
    vec![
        format!("incident {} ({})", incident.number, incident.verdict().name()),
        busiest.map_or_else(dash, |(_, cpu)| percent(cpu.share())),
        busiest.map_or_else(dash, |(_, cpu)| percent(cpu.ksoftirqd_share())),
        format!("{:.0}", incident.packet_rate()),
        ms(gap),
        ms(inside.map(|gap| gap.packet_us).max().unwrap_or(0)),
        ms(totals.grace_us),
        if totals.has_packets {
            percent(totals.packets.dropped() as f64 / totals.packets.offered().max(1) as f64)
        } else {
            dash()
        },
    ]
}
