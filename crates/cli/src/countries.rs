//! The database of countries that the configuration names (`geoip-database`).

use crate::limits::COUNTRIES_BYTES_MAX;
use crate::operator_file;
use gabion_net::Countries;
use gabion_record::Tree;
use std::path::Path;

const DISABLED: &str = "GeoIP rule matching is disabled.";

/// Reads it; nothing when none is named. An error is said in the peer's words.
pub(crate) fn load(config: &Tree) -> Result<Option<Countries>, String> {
    let Some(path) = config.text("geoip-database") else { return Ok(None) };
    let bytes =
        operator_file::bytes(Path::new(path), COUNTRIES_BYTES_MAX).map_err(|e| e.to_string());
    let read = bytes.and_then(Countries::from_bytes);
    read.map(Some).map_err(|why| {
        format!("Failed to open GeoIP2 database: {path}. Error was: {why}.  {DISABLED}")
    })
}

/// Why rules can't ask for countries, if they can't.
pub(crate) fn missing(config: &Tree) -> Option<String> {
    match load(config) {
        Ok(Some(_)) => None,
        Ok(None) => {
            let what = "Unable to locate a GeoIP2database filename in YAML conf.";
            Some(format!("{what}  {DISABLED}"))
        }
        Err(why) => Some(why),
    }
}
