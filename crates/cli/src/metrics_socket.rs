//! `--metrics`: the socket that a command gives to what serves metrics.

use crate::exit::Fault;
use gabion_sensor::packets::PacketMetrics;
use std::net::{SocketAddr, TcpListener};

/// Listens at an address of this machine.
///
/// # Errors
/// It is an address for other machines, too, or can't be listened at.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, Fault> {
    if !address.ip().is_loopback() {
        return Err(Fault::usage(format!(
            "--metrics: {address}: is not the machine's own address: use 127.0.0.1"
        )));
    }
    gabion_intake::bind_metrics(address).map_err(|e| Fault::environment(e.to_string()))
}

/// Serves the metrics of a run over packets at an address of this machine.
///
/// # Errors
/// As [`bind`]; if the thread can't be started.
pub(crate) fn serve_packet_metrics(address: SocketAddr) -> Result<PacketMetrics, Fault> {
    Ok(PacketMetrics::open(bind(address)?)?)
}
