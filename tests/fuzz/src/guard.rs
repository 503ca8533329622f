//! Recordings of the guard: rows, heads and compressed blocks of any bytes, in pieces of any size.

use crate::seeds::{Seeds, repository};
use gabion_guard::recording::{Error, Packer, Reader, Recording};
use gabion_guard::strips::Strips;
use gabion_guard::undo::UndoRecord;
use gabion_guard::{Settings, Verdict, diagnose};

fn read(bytes: &[u8], piece: usize) -> Result<Recording, Error> {
    let mut reader = Reader::new();
    for part in bytes.chunks(piece.max(1)) {
        reader.feed(part)?;
    }
    reader.end_file()?;
    reader.finish()
}

/// Takes a recording: whole and in pieces it is the same, its incidents are in order, and the same is found again.
///
/// # Panics
/// If one of these does not hold.
pub fn recording(data: &[u8]) {
    let _ = UndoRecord::parse(data);
    let piece = data.first().map_or(1, |n| usize::from(*n) % 61 + 1);
    let whole = read(data, data.len());
    let pieces = read(data, piece);
    match (&whole, &pieces) {
        (Ok(a), Ok(b)) => assert_eq!(a, b, "pieces of {piece} bytes"),
        (Err(_), Err(_)) => return,
        _ => panic!("whole: {whole:?}, pieces of {piece} bytes: {pieces:?}"),
    }
    let Ok(recording) = whole else { return };
    let found = diagnose(&recording, Settings::watch());
    assert_eq!(found, diagnose(&recording, Settings::watch()));
    for pair in found.incidents.windows(2) {
        assert!(pair[0].last_ms <= pair[1].began_ms, "incidents are in order");
    }
    for incident in &found.incidents {
        assert!(incident.began_ms < incident.last_ms);
        let has_softirqs = found.measured > 0;
        assert!(
            has_softirqs || incident.cause.is_none() || incident.verdict() == Verdict::NotPackets
        );
        assert!(!incident.line("now", None, 30).is_empty());
    }
    for bin_us in [4000, 100_000] {
        let span = (found.span_ms.0 * 1000, found.span_ms.1.saturating_mul(1000));
        let strips = Strips::over(&recording, &found, span, bin_us);
        assert!(strips.bins <= gabion_guard::limits::BINS_MAX);
    }
}

/// Rows of both kinds, plain and compressed, and the begins of the demonstration's recordings.
pub fn recording_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let rows: String = (0..200)
        .map(|n| format!("{},1,{},{},\n", n * 4, if n > 50 { 3900 } else { 10 }, n % 7))
        .collect();
    let text = format!("# budget_percent=30\nt_ms,cpu,rx_us,pkts,user_gap_us\n{rows}");
    let xdp = "t_ms,pass,drop_charge,new_flows\n2.98,5,0,1\n12.19,9,100,2\n".to_owned();
    let mut all = vec![text.clone().into_bytes(), xdp.into_bytes()];
    let mut packed = Vec::new();
    if let Ok(mut packer) = Packer::new()
        && packer.pack(text.as_bytes(), &mut packed).is_ok()
        && packer.finish(&mut packed).is_ok()
    {
        all.push(packed);
    }
    for name in ["flood.csv.zst", "flood.xdp.csv.zst"] {
        if let Ok(bytes) = std::fs::read(repository().join("demo/guard").join(name)) {
            all.push(bytes.get(..16 << 10).map_or(bytes.clone(), <[u8]>::to_vec));
        }
    }
    all
}
