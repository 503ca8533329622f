//! Reputation files: categories (`id,short name,description`) and scores (`address,id,score`).

use crate::error::{Error, Result};
use gabion_net::Reputation;
use gabion_record::{Addr, Tree};
use gabion_rules::Ruleset;
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_runtime::operator_file;
use std::net::IpAddr;
use std::path::Path;

/// Reads the files the configuration names; lines that cannot be read are passed over, a missing
/// file is an error.
pub(crate) fn load(config: &Tree, set: &Ruleset) -> Result<Reputation> {
    let mut r = Reputation::default();
    let Some(categories) = config.text("reputation-categories-file") else { return Ok(r) };
    let read = |p: &Path| {
        operator_file::text(p, NAMED_FILE_BYTES_MAX)
            .map_err(|source| Error::Reputation { path: p.to_owned(), source })
    };
    let mut ids: Vec<(u32, u32)> = Vec::new();
    for line in read(Path::new(categories))?.lines() {
        let mut parts = line.split(',').map(str::trim);
        let (Some(id), Some(name)) = (parts.next(), parts.next()) else { continue };
        if let (Ok(id), Some(category)) = (id.parse(), set.categories.find(name)) {
            ids.push((id, category));
        }
    }
    let base = config.text("default-reputation-path").unwrap_or("");
    let files = config.get("reputation-files").map_or(&[][..], |t| &t.children);
    for (_, item) in files {
        let Some(name) = &item.value else { continue };
        let path = Path::new(base).join(name);
        for line in read(&path)?.lines().filter(|l| !l.starts_with('#')) {
            entry(line, &ids, &mut r);
        }
    }
    Ok(r)
}

fn entry(line: &str, ids: &[(u32, u32)], r: &mut Reputation) -> Option<()> {
    let mut parts = line.split(',').map(str::trim);
    let (address, id, score) = (parts.next()?, parts.next()?, parts.next()?);
    let (address, prefix) = match address.split_once('/') {
        Some((a, p)) => (a, p.parse().ok()?),
        None => (address, u8::MAX),
    };
    let ip: IpAddr = address.parse().ok()?;
    let version = if ip.is_ipv6() { 6 } else { 4 };
    let id: u32 = id.parse().ok()?;
    let category = ids.iter().find(|(i, _)| *i == id)?.1;
    r.set(Addr::from_ip(ip), version, prefix, category, score.parse().ok()?);
    Some(())
}
