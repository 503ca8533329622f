//! What the page says of addresses: their autonomous system and their country, where the
//! configuration names tables that know them.

use super::lists::ListFiles;
use crate::Error;
use gabion_behavior::intel::Intel;
use gabion_net::Countries;
use gabion_outputs::page::Page;
use gabion_record::{Addr, Ip, Tree};
use gabion_settings::load_countries;
use std::net::IpAddr;
use std::sync::Arc;

/// Tables of addresses.
#[derive(Default)]
pub struct AddressBook {
    intel: Arc<Intel>,
    countries: Option<Countries>,
}

impl AddressBook {
    /// With the lists of a run, and the database of countries that the configuration names.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn with(intel: Arc<Intel>, config: &Tree) -> Result<AddressBook, Error> {
        let countries = load_countries(config).map_err(Error::Countries)?;
        Ok(AddressBook { intel, countries })
    }

    /// With the tables of addresses alone that the configuration names, for a run without lists.
    ///
    /// # Errors
    /// When one can't be read.
    pub fn from_config(config: &Tree) -> Result<AddressBook, Error> {
        let places = ListFiles::systems(config);
        let intel = if places.is_empty() { Intel::default() } else { places.load()?.0 };
        AddressBook::with(Arc::new(intel), config)
    }

    /// Number and name of an address's system, and its country.
    fn place(&self, ip: &str) -> Option<String> {
        let at = Ip::parse(ip.as_bytes())?;
        let system = self.intel.asn_of(at).map(|(number, name)| match name {
            "" => format!("AS{number}"),
            name => format!("AS{number} {name}"),
        });
        let (addr, version) = match ip.parse::<IpAddr>().ok()? {
            IpAddr::V4(ip) => (Addr::v4(ip.octets()), 4),
            IpAddr::V6(ip) => (Addr::v6(ip.octets()), 6),
        };
        let country = self.countries.as_ref().and_then(|c| c.country_of(addr, version));
        let country = country.or_else(|| self.intel.country_of(at)).map(str::to_owned);
        let parts: Vec<String> = [system, country].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Adds to a page what is known of each of its addresses.
    pub fn name(&self, page: &mut Page) {
        let hosts = page.hosts.iter().map(|h| h.ip.as_str());
        let calls = page.calls.iter().flat_map(|c| [c.from.as_str(), c.to.as_str()]);
        let findings = page.findings.iter().map(|f| f.ip.as_str());
        let alerted = page.alerted.iter().map(|h| h.ip.as_str());
        let all = hosts.chain(calls).chain(findings).chain(alerted);
        let known = all.filter_map(|ip| Some((ip.to_owned(), self.place(ip)?))).collect();
        page.places = known;
    }
}
