//! Captures changed at random: no panic, no difference between whole and split reading, and the
//! ledger balances (all checked in the fuzzers' entry point).

mod build;

use gabion_capture::fuzz_entry;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_captures_never_panic(
        sample in 0..build::samples().len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = build::samples().swap_remove(sample).1;
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = fuzz_entry(&bytes);
    }

    #[test]
    fn garbage_after_a_header_never_panics(
        magic in prop::sample::select(vec![0xa1b2_c3d4_u32, 0xa1b2_3c4d, 0xa1b2_cd34]),
        garbage in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut b = build::Bytes::new(build::Order::Little);
        b.pcap_header(magic, (2, 4), 65535, 1).raw(&garbage);
        let _ = fuzz_entry(&b.out);
        let mut b = build::Bytes::new(build::Order::Big);
        b.section().interface(1, 0, &[]).raw(&garbage);
        let _ = fuzz_entry(&b.out);
    }
}
