//! Ports whose service is known: what a connection to them is called, and which ports are not
//! unknown. Our own list, after IANA's registry and common use; users add to it by a file of lines
//! `name,port,protocol`.

use gabion_record::logs::Proto;

/// Name, port, and whether TCP, UDP or both.
const SERVICES: &[(&str, u16, &str)] = &[
    ("tcpmux", 1, "tu"),
    ("echo", 7, "tu"),
    ("discard", 9, "tu"),
    ("systat", 11, "t"),
    ("daytime", 13, "tu"),
    ("netstat", 15, "t"),
    ("qotd", 17, "tu"),
    ("chargen", 19, "tu"),
    ("ftp-data", 20, "tu"),
    ("ftp", 21, "tu"),
    ("ssh", 22, "tu"),
    ("telnet", 23, "tu"),
    ("smtp", 25, "tu"),
    ("time", 37, "tu"),
    ("whois", 43, "t"),
    ("tacacs", 49, "tu"),
    ("domain", 53, "tu"),
    ("bootps", 67, "tu"),
    ("bootpc", 68, "tu"),
    ("tftp", 69, "u"),
    ("gopher", 70, "t"),
    ("finger", 79, "t"),
    ("http", 80, "tu"),
    ("http-alt", 81, "t"),
    ("kerberos", 88, "tu"),
    ("pop2", 109, "t"),
    ("pop3", 110, "t"),
    ("sunrpc", 111, "tu"),
    ("auth", 113, "t"),
    ("nntp", 119, "t"),
    ("ntp", 123, "tu"),
    ("epmap", 135, "tu"),
    ("netbios-ns", 137, "tu"),
    ("netbios-dgm", 138, "tu"),
    ("netbios-ssn", 139, "tu"),
    ("imap", 143, "t"),
    ("snmp", 161, "tu"),
    ("snmp-trap", 162, "tu"),
    ("xdmcp", 177, "u"),
    ("bgp", 179, "t"),
    ("irc", 194, "tu"),
    ("imap3", 220, "t"),
    ("ldap", 389, "tu"),
    ("svrloc", 427, "tu"),
    ("https", 443, "tu"),
    ("microsoft-ds", 445, "tu"),
    ("kpasswd", 464, "tu"),
    ("submissions", 465, "t"),
    ("isakmp", 500, "u"),
    ("exec", 512, "t"),
    ("login", 513, "t"),
    ("shell", 514, "t"),
    ("syslog", 514, "u"),
    ("printer", 515, "t"),
    ("rip", 520, "u"),
    ("dhcpv6-client", 546, "tu"),
    ("dhcpv6-server", 547, "tu"),
    ("afp", 548, "t"),
    ("rtsp", 554, "tu"),
    ("nntps", 563, "t"),
    ("submission", 587, "t"),
    ("http-rpc-epmap", 593, "t"),
    ("ipp", 631, "tu"),
    ("ldaps", 636, "t"),
    ("dns-over-tls", 853, "tu"),
    ("rsync", 873, "t"),
    ("vmware-auth", 902, "tu"),
    ("ftps-data", 989, "t"),
    ("ftps", 990, "t"),
    ("telnets", 992, "t"),
    ("imaps", 993, "t"),
    ("pop3s", 995, "t"),
    ("socks", 1080, "t"),
    ("openvpn", 1194, "tu"),
    ("ms-sql-s", 1433, "t"),
    ("ms-sql-m", 1434, "u"),
    ("oracle", 1521, "t"),
    ("l2tp", 1701, "u"),
    ("pptp", 1723, "t"),
    ("radius", 1812, "u"),
    ("radius-acct", 1813, "u"),
    ("mqtt", 1883, "t"),
    ("ssdp", 1900, "u"),
    ("nfs", 2049, "tu"),
    ("cpanel", 2083, "t"),
    ("docker", 2375, "t"),
    ("docker-s", 2376, "t"),
    ("squid", 3128, "t"),
    ("mysql", 3306, "t"),
    ("rdp", 3389, "tu"),
    ("stun", 3478, "tu"),
    ("ws-discovery", 3702, "u"),
    ("svn", 3690, "t"),
    ("nat-t-ike", 4500, "u"),
    ("upnp", 5000, "t"),
    ("sip", 5060, "tu"),
    ("sips", 5061, "t"),
    ("xmpp-client", 5222, "t"),
    ("hpvirtgrp", 5223, "t"),
    ("xmpp-server", 5269, "t"),
    ("nat-pmp", 5351, "u"),
    ("mdns", 5353, "u"),
    ("llmnr", 5355, "u"),
    ("wsdapi", 5357, "t"),
    ("wsdapi-s", 5358, "t"),
    ("postgresql", 5432, "t"),
    ("adb", 5555, "t"),
    ("amqps", 5671, "t"),
    ("amqp", 5672, "t"),
    ("vnc", 5900, "t"),
    ("winrm", 5985, "t"),
    ("winrm-s", 5986, "t"),
    ("x11", 6000, "t"),
    ("redis", 6379, "t"),
    ("ircd", 6667, "t"),
    ("ircs", 6697, "t"),
    ("http-alt", 8000, "t"),
    ("http-alt", 8008, "t"),
    ("ajp13", 8009, "t"),
    ("http-proxy", 8080, "t"),
    ("radan-http", 8088, "t"),
    ("https-alt", 8443, "t"),
    ("mqtt-s", 8883, "t"),
    ("http-alt", 8888, "t"),
    ("jetdirect", 9100, "t"),
    ("git", 9418, "t"),
    ("elasticsearch", 9200, "t"),
    ("mongodb", 27017, "t"),
];

/// The name of a service.
#[derive(Clone, Debug)]
pub struct Services {
    /// Two bits a port (TCP, UDP), so that the question of every flow is one load.
    known: Box<[u8; 65536]>,
    added: Vec<(String, u16, Proto)>,
}

const TCP: u8 = 1;
const UDP: u8 = 2;

impl Default for Services {
    fn default() -> Services {
        let mut known = Box::new([0u8; 65536]);
        for (_, port, protos) in SERVICES {
            let bits = u8::from(protos.contains('t')) * TCP + u8::from(protos.contains('u')) * UDP;
            if let Some(slot) = known.get_mut(usize::from(*port)) {
                *slot |= bits;
            }
        }
        Services { known, added: Vec::new() }
    }
}

impl Services {
    /// Adds lines `name,port,protocol[,description]`; gives the numbers of lines that are none.
    pub fn add(&mut self, text: &str) -> Vec<usize> {
        let mut wrong = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let mut parts = line.split(',').map(str::trim);
            let name = parts.next().unwrap_or_default();
            if name.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let port = parts.next().and_then(|p| p.parse::<u16>().ok());
            let proto = Proto::from_name(parts.next().unwrap_or_default().as_bytes());
            let Some(port) = port else {
                wrong.push(at + 1);
                continue;
            };
            if let Some(slot) = self.known.get_mut(usize::from(port)) {
                *slot |= bit(proto);
            }
            self.added.push((name.to_owned(), port, proto));
        }
        wrong
    }

    /// Whether the port has a service.
    #[inline]
    pub fn knows(&self, port: u16, proto: Proto) -> bool {
        self.known.get(usize::from(port)).is_some_and(|bits| bits & bit(proto) != 0)
    }

    /// The service's name; `None` where there is none.
    pub fn name(&self, port: u16, proto: Proto) -> Option<&str> {
        if !self.knows(port, proto) {
            return None;
        }
        let letter = if proto == Proto::Udp { 'u' } else { 't' };
        let ours = SERVICES.iter().find(|(_, p, protos)| *p == port && protos.contains(letter));
        let added = || self.added.iter().find(|(_, p, t)| *p == port && *t == proto);
        ours.map(|s| s.0).or_else(|| added().map(|s| s.0.as_str()))
    }
}

const fn bit(proto: Proto) -> u8 {
    match proto {
        Proto::Tcp => TCP,
        Proto::Udp => UDP,
        Proto::Icmp
        | Proto::IcmpV6
        | Proto::Igmp
        | Proto::Arp
        | Proto::Sctp
        | Proto::Gre
        | Proto::Other => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_names_and_users_add_theirs() {
        let mut services = Services::default();
        assert_eq!(services.name(81, Proto::Tcp), Some("http-alt"));
        assert_eq!(services.name(3389, Proto::Tcp), Some("rdp"));
        assert!(!services.knows(5888, Proto::Tcp) && !services.knows(22, Proto::Icmp));
        assert_eq!(services.add("# mine\nours,5888,tcp,x\nbad,port,tcp\n"), [3]);
        assert_eq!(services.name(5888, Proto::Tcp), Some("ours"));
    }
}
