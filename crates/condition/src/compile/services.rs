//! Names of ports, as `/etc/services` has them on most systems: the well-known names of the IANA registry that rules use.
//! The table is fixed, so that a rule means the same on every host.

const SERVICES: &[(&str, u16)] = &[
    ("tcpmux", 1),
    ("echo", 7),
    ("discard", 9),
    ("systat", 11),
    ("daytime", 13),
    ("netstat", 15),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("whois", 43),
    ("tacacs", 49),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("gopher", 70),
    ("finger", 79),
    ("http", 80),
    ("kerberos", 88),
    ("pop2", 109),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("epmap", 135),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("imap2", 143),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("xdmcp", 177),
    ("bgp", 179),
    ("irc", 194),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("kpasswd", 464),
    ("submissions", 465),
    ("isakmp", 500),
    ("exec", 512),
    ("login", 513),
    ("shell", 514),
    ("syslog", 514),
    ("printer", 515),
    ("uucp", 540),
    ("klogin", 543),
    ("kshell", 544),
    ("submission", 587),
    ("ipp", 631),
    ("ldaps", 636),
    ("domain-s", 853),
    ("rsync", 873),
    ("ftps-data", 989),
    ("ftps", 990),
    ("telnets", 992),
    ("imaps", 993),
    ("pop3s", 995),
    ("socks", 1080),
    ("openvpn", 1194),
    ("ms-sql-s", 1433),
    ("ms-sql-m", 1434),
    ("ingreslock", 1524),
    ("radius", 1812),
    ("radius-acct", 1813),
    ("nfs", 2049),
    ("iscsi-target", 3260),
    ("mysql", 3306),
    ("ms-wbt-server", 3389),
    ("svn", 3690),
    ("epmd", 4369),
    ("sip", 5060),
    ("sip-tls", 5061),
    ("xmpp-client", 5222),
    ("xmpp-server", 5269),
    ("mdns", 5353),
    ("postgresql", 5432),
    ("amqps", 5671),
    ("amqp", 5672),
    ("x11", 6000),
    ("redis", 6379),
    ("ircs-u", 6697),
    ("http-alt", 8080),
    ("zabbix-agent", 10050),
    ("zabbix-trapper", 10051),
];

/// The port of a service.
pub(super) fn port_of(name: &str) -> Option<u16> {
    SERVICES.iter().find(|(service, _)| *service == name).map(|(_, port)| *port)
}

/// The service of a port.
#[cfg(test)]
fn name_of(port: u16) -> Option<&'static str> {
    SERVICES.iter().find(|(_, p)| *p == port).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_sorted_by_port() {
        assert!(SERVICES.is_sorted_by_key(|(_, port)| *port));
        assert_eq!(port_of("https"), Some(443));
        assert_eq!(name_of(22), Some("ssh"));
    }
}
