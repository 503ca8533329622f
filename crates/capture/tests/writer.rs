//! Written files are read back; the limits of files and folders hold.

use gabion_capture::{
    CaptureBytes, Error, FileNames, FrameRef, PcapWriter, Resolution, RotatingPcap, RotationLimits,
    Source, Written,
};
use gabion_record::files::{FileOpener, OpenMode};

type Seen = (u64, u32, u16, Vec<u8>);

fn read(bytes: Vec<u8>) -> Result<Vec<Seen>, Error> {
    let mut source = Source::from_bytes(CaptureBytes::from_vec(bytes))?;
    let mut refs: Vec<FrameRef> = Vec::new();
    let Some(block) = source.next_block(1_000_000, &mut refs) else { return Ok(Vec::new()) };
    assert!(source.notes().is_empty());
    Ok(refs
        .iter()
        .map(|r| r.frame(&block.bytes))
        .map(|f| (f.ts_ns, f.wire_len, f.link, f.data.to_vec()))
        .collect())
}

#[test]
fn written_frames_are_read_back() {
    let ts = 1_700_000_000_123_456_789;
    for (resolution, back) in [(Resolution::Nano, ts), (Resolution::Micro, ts / 1000 * 1000)] {
        let mut w = PcapWriter::new(Vec::new(), 113, resolution, 4, u64::MAX).unwrap();
        assert_eq!(w.write(ts, 113, 90, b"abc").unwrap(), Written::Whole);
        assert_eq!(w.write(ts, 113, 6, b"abcdef").unwrap(), Written::Cut);
        assert_eq!(w.write(ts, 1, 3, b"abc").unwrap(), Written::OtherLink);
        assert_eq!(w.write(ts, 113, 0, b"").unwrap(), Written::Whole);
        assert_eq!(w.bytes_written(), 24 + 3 * 16 + 7);
        assert_eq!(
            read(w.finish().unwrap()).unwrap(),
            [
                (back, 90, 113, b"abc".to_vec()),
                (back, 6, 113, b"abcd".to_vec()),
                (back, 0, 113, Vec::new())
            ]
        );
    }
}

#[test]
fn a_file_stays_under_its_limit() {
    let mut w = PcapWriter::new(Vec::new(), 1, Resolution::Micro, 0, 24 + 20 + 20).unwrap();
    assert_eq!(w.write(0, 1, 4, b"1234").unwrap(), Written::Whole);
    assert_eq!(w.write(0, 1, 5, b"12345").unwrap(), Written::Full);
    assert_eq!(w.write(0, 1, 4, b"1234").unwrap(), Written::Whole);
    assert_eq!(w.write(0, 1, 0, b"").unwrap(), Written::Full);
    assert_eq!(w.finish().unwrap().len(), 64);
}

#[test]
fn the_packet_log_rotates_and_removes_the_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let opener = FileOpener::new(|path, mode| {
        assert_eq!(mode, OpenMode::CreateNew);
        std::fs::File::create_new(path)
    });
    let mut log = RotatingPcap::new(
        opener,
        dir.path(),
        FileNames::new("log.pcap", false),
        Resolution::Micro,
        0,
        RotationLimits { file_bytes: 24 + 3 * 26, files: 2 },
    );
    for n in 0..10_u64 {
        assert_eq!(log.write(n * 400_000_000, 1, 10, &[n as u8; 10]).unwrap(), Written::Whole);
    }
    assert_eq!(log.write(0, 1, 100, &[0; 100]).unwrap(), Written::Full);
    log.flush().unwrap();
    let names: Vec<_> =
        log.files().map(|f| f.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["log.pcap.2", "log.pcap.3"]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    let frames = |name: &str| read(std::fs::read(dir.path().join(name)).unwrap()).unwrap();
    let firsts: Vec<u8> = names.iter().flat_map(|n| frames(n)).map(|f| f.3[0]).collect();
    assert_eq!(firsts, [6, 7, 8, 9]);
    // Another link type needs a new file; an existing file is never overwritten.
    assert_eq!(log.write(3_700_000_000, 113, 1, b"x").unwrap(), Written::Whole);
    log.flush().unwrap();
    assert_eq!(frames("log.pcap.3.1"), [(3_700_000_000, 1, 113, b"x".to_vec())]);
}
