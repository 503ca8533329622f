//! slog's server configuration: `Key=value` lines. All white space is removed from a line, lines with
//! none or more than one `=` are skipped, as slog does; what has no meaning here is named, not ignored
//! in silence.

use crate::limits::CONFIG_BYTES_MAX;

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct ConfigError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub fault: ConfigFault,
}

/// What is wrong with a line of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFault {
    /// The whole is larger than a configuration may be.
    #[error("is too long to be a configuration")]
    TooLong,
    /// A key wants a port and has something else.
    #[error("{key}: {value}: not a port")]
    NoPort {
        /// The key.
        key: String,
        /// What stands there.
        value: String,
    },
}

/// What a configuration asks for; empty values count as not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlogConfig {
    /// Port of envelopes over TCP.
    pub tcp_port: Option<u16>,
    /// Port of envelopes over UDP.
    pub udp_port: Option<u16>,
    /// Port of clear syslog over TCP; slog's default is 514.
    pub tcp_syslog: Option<u16>,
    /// Port of clear syslog over UDP; slog's default is 514.
    pub udp_syslog: Option<u16>,
    /// File of the private key that opens envelopes.
    pub comms_private_key: Option<String>,
    /// File of the public key that storage is encrypted for.
    pub storage_public_key: Option<String>,
    /// Folder of the log.
    pub storage_folder: Option<String>,
    /// Keys that slog knows and that change nothing here, in the order they stand.
    pub without_effect: Vec<String>,
    /// Keys that slog does not know.
    pub unknown: Vec<String>,
    known: usize,
}

impl SlogConfig {
    /// Whether there was any key that slog knows: a file without one is something else.
    pub const fn has_known_keys(&self) -> bool {
        self.known > 0
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(text: &str) -> Result<SlogConfig, ConfigError> {
        if text.len() > CONFIG_BYTES_MAX {
            return Err(ConfigError { line: 1, fault: ConfigFault::TooLong });
        }
        let mut config =
            SlogConfig { tcp_syslog: Some(514), udp_syslog: Some(514), ..SlogConfig::default() };
        for (n, line) in text.lines().enumerate() {
            let line: String = line.chars().filter(|c| !c.is_whitespace()).collect();
            let mut parts = line.split('=');
            let (Some(key), Some(value), None) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            if key.starts_with('#') {
                continue;
            }
            let text = || (!value.is_empty()).then(|| value.to_owned());
            let port = || match value {
                "" => Ok(None),
                _ => value.parse::<u16>().map(Some).map_err(|_| ConfigError {
                    line: n + 1,
                    fault: ConfigFault::NoPort { key: key.to_owned(), value: value.to_owned() },
                }),
            };
            match key {
                "TCPport" => config.tcp_port = port()?,
                "UDPport" => config.udp_port = port()?,
                "TCPsyslog" => config.tcp_syslog = port()?,
                "UDPsyslog" => config.udp_syslog = port()?,
                "CommsPrivKey" => config.comms_private_key = text(),
                "StoragePubKey" => config.storage_public_key = text(),
                "StorageFolder" => config.storage_folder = text(),
                "InfluxDBname"
                | "InfluxIP"
                | "PacketBufferSize"
                | "FileBatchSize"
                | "WireChannelBuffer"
                | "ProcessingChannelBuffer"
                | "CompressedBlob" => {
                    config.without_effect.push(key.to_owned());
                }
                _ => {
                    config.unknown.push(key.to_owned());
                    continue;
                }
            }
            config.known += 1;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_configuration_is_read() {
        let text = "# ports\nTCPport = 8001\nUDPport=\nTCPsyslog=5514\n\nCommsPrivKey = keys/comms rsa\nPacketBufferSize=4096\n\
                    a=b=c\nStorageFolder=slog-data/\nNonsense=1\n";
        let config = SlogConfig::parse(text).expect("a good file");
        assert_eq!((config.tcp_port, config.udp_port), (Some(8001), None));
        assert_eq!((config.tcp_syslog, config.udp_syslog), (Some(5514), Some(514)));
        assert_eq!(config.comms_private_key.as_deref(), Some("keys/commsrsa"));
        assert_eq!(config.storage_folder.as_deref(), Some("slog-data/"));
        assert_eq!(config.without_effect, ["PacketBufferSize"]);
        assert_eq!(config.unknown, ["Nonsense"]);
        assert!(config.has_known_keys());
        let other = SlogConfig::parse("root:x:0:0\na=1\n").expect("lines without keys are skipped");
        assert!(!other.has_known_keys());
        let wrong = SlogConfig::parse("\nTCPport=x").expect_err("no port");
        assert_eq!((wrong.line, wrong.to_string()), (2, "TCPport: x: not a port".to_owned()));
    }
}
