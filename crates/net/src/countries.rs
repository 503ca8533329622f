//! Countries of addresses, out of a database in MaxMind's format (version 2.0 of its description).

use crate::error::CountriesError;
use gabion_record::Addr;
use maxminddb::{PathElement, Reader};
use std::net::IpAddr;

/// A database of countries, held in memory and read in place.
pub struct Countries {
    reader: Reader<Vec<u8>>,
}

impl std::fmt::Debug for Countries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Countries").finish_non_exhaustive()
    }
}

impl Countries {
    /// Takes a database file's bytes; an error says what is wrong with them.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Countries, CountriesError> {
        Ok(Countries { reader: Reader::from_source(bytes)? })
    }

    /// ISO code of an address's country (`country.iso_code`), if it is in the database.
    pub fn country_of(&self, address: Addr, ip_version: u8) -> Option<&str> {
        let ip: IpAddr = match ip_version {
            4 => IpAddr::from(<[u8; 4]>::try_from(address.0.get(..4)?).ok()?),
            _ => IpAddr::from(address.0),
        };
        let path = [PathElement::Key("country"), PathElement::Key("iso_code")];
        self.reader.lookup(ip).ok()?.decode_path(&path).ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(s: &str) -> Vec<u8> {
        [&[0x40 | s.len() as u8][..], s.as_bytes()].concat()
    }

    /// One node over IPv4: addresses below 128.0.0.0 are of a country, the others of none. Layout by
    /// the description of the format, 2.0.
    fn half_the_world(country: &str) -> Vec<u8> {
        let mut file = vec![0, 0, 1 + 16, 0, 0, 1];
        file.extend([0; 16]);
        file.push(0xe1);
        file.extend(text("country"));
        file.push(0xe1);
        file.extend([text("iso_code"), text(country)].concat());
        file.extend(b"\xab\xcd\xefMaxMind.com\xe9");
        for (key, value) in [
            ("binary_format_major_version", &b"\xa1\x02"[..]),
            ("binary_format_minor_version", b"\xa0"),
            ("build_epoch", b"\x00\x02"),
            ("database_type", b"\x41T"),
            ("description", b"\xe0"),
            ("ip_version", b"\xa1\x04"),
            ("languages", b"\x00\x04"),
            ("node_count", b"\xc1\x01"),
            ("record_size", b"\xa1\x18"),
        ] {
            file.extend(text(key));
            file.extend(value);
        }
        file
    }

    #[test]
    fn addresses_have_a_country_or_none() {
        let db = Countries::from_bytes(half_the_world("DE")).unwrap();
        assert_eq!(db.country_of(Addr::v4([10, 0, 0, 1]), 4), Some("DE"));
        assert_eq!(db.country_of(Addr::v4([200, 0, 0, 1]), 4), None);
        assert_eq!(db.country_of(Addr::v6([0x20; 16]), 6), None);
    }

    #[test]
    fn what_is_no_database_is_refused() {
        for bytes in [&b""[..], b"no database", &[0xab; 4096]] {
            assert!(Countries::from_bytes(bytes.to_vec()).is_err());
        }
    }
}
