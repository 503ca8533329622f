//! The database of countries that the configuration names (`geoip-database`).

use crate::error::{COUNTRIES_DISABLED, Error, Result};
use crate::limits::COUNTRIES_BYTES_MAX;
use gabion_net::Countries;
use gabion_record::Tree;
use gabion_runtime::operator_file;
use std::path::Path;

/// Reads the database of countries that the configuration names; nothing when it names none.
///
/// # Errors
/// When it can't be read, in Suricata's words.
pub fn load_countries(config: &Tree) -> Result<Option<Countries>> {
    let Some(path) = config.text("geoip-database") else { return Ok(None) };
    let bytes =
        operator_file::bytes(Path::new(path), COUNTRIES_BYTES_MAX).map_err(|e| e.to_string());
    let read = bytes.and_then(|b| Countries::from_bytes(b).map_err(|e| e.to_string()));
    read.map(Some).map_err(|why| Error::Countries { path: path.to_owned(), why })
}

/// Why rules can't ask for countries, if they can't.
pub(crate) fn missing(config: &Tree) -> Option<String> {
    match load_countries(config) {
        Ok(Some(_)) => None,
        Ok(None) => {
            let what = "Unable to locate a GeoIP2database filename in YAML conf.";
            Some(format!("{what}  {COUNTRIES_DISABLED}"))
        }
        Err(why) => Some(why.to_string()),
    }
}
