//! What the configuration says: `app-layer.protocols.dnp3`.

use super::limits::{OBJECTS_MAX, OPEN_TXS_MAX, POINTS_MAX};
use gabion_record::Tree;

/// How much of a message is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Points of a message.
    pub points_max: u64,
    /// Objects of a message.
    pub objects_max: u64,
}

/// Settings of DNP3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Live transactions of a flow.
    pub txs_max: u64,
    /// How much of a message is read.
    pub bounds: Bounds,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { points_max: POINTS_MAX, objects_max: OBJECTS_MAX }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { txs_max: OPEN_TXS_MAX, bounds: Bounds::default() }
    }
}

impl Settings {
    /// Reads `app-layer.protocols.dnp3`; what is missing or wrong keeps Suricata's default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let mut s = Settings::default();
        let Some(c) = config else { return s };
        for (key, slot) in [
            ("max-tx", &mut s.txs_max),
            ("max-points", &mut s.bounds.points_max),
            ("max-objects", &mut s.bounds.objects_max),
        ] {
            if let Some(n) = c.number(key) {
                *slot = n;
            }
        }
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_wrong_ones_left() {
        let mut t = Tree::default();
        t.set("max-tx", "7");
        t.set("max-points", "many");
        t.set("max-objects", "3");
        let bounds = Bounds { objects_max: 3, ..Bounds::default() };
        assert_eq!(Settings::from_config(Some(&t)), Settings { txs_max: 7, bounds });
        assert_eq!(Settings::from_config(None), Settings::default());
    }
}
