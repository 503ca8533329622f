//! Commands, their arguments, and the ports they speak of.

/// A command the parser knows by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Name in capitals, as EVE and rules have it.
    pub name: &'static str,
    /// What it means to the parser.
    pub kind: Kind,
}

/// What a command means to the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Plain,
    /// The client listens (RFC 959).
    Port,
    /// The client listens (RFC 2428).
    Eprt,
    /// The server will listen (RFC 959).
    Pasv,
    /// The server will listen (RFC 2428).
    Epsv,
    /// A data connection follows.
    Transfer(Transfer),
}

/// What a data connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// A file from the server.
    Retr,
    /// A file to the server.
    Stor,
    /// More of a file to the server.
    Appe,
    /// A file to the server under a name of its own choice.
    Stou,
    /// A listing from the server.
    List,
    /// A listing of names.
    Nlst,
    /// A listing for machines (RFC 3659).
    Mlsd,
}

impl Transfer {
    /// All of them.
    pub const ALL: [Transfer; 7] = [
        Transfer::Retr,
        Transfer::Stor,
        Transfer::Appe,
        Transfer::Stou,
        Transfer::List,
        Transfer::Nlst,
        Transfer::Mlsd,
    ];

    /// The command's name.
    pub const fn name(self) -> &'static str {
        match self {
            Transfer::Retr => "RETR",
            Transfer::Stor => "STOR",
            Transfer::Appe => "APPE",
            Transfer::Stou => "STOU",
            Transfer::List => "LIST",
            Transfer::Nlst => "NLST",
            Transfer::Mlsd => "MLSD",
        }
    }

    /// The client sends.
    pub const fn is_upload(self) -> bool {
        matches!(self, Transfer::Stor | Transfer::Appe | Transfer::Stou)
    }

    /// It carries a file.
    pub const fn is_file(self) -> bool {
        self.is_upload() || matches!(self, Transfer::Retr)
    }

    /// It can't do without a name.
    pub const fn needs_name(self) -> bool {
        matches!(self, Transfer::Retr | Transfer::Stor | Transfer::Appe)
    }
}

const fn plain(name: &'static str) -> Command {
    Command { name, kind: Kind::Plain }
}

const fn transfer(t: Transfer) -> Command {
    Command { name: t.name(), kind: Kind::Transfer(t) }
}

/// Commands known by name: measured with all of the RFCs 959, 2228, 2389, 2428, 3659 against
/// Suricata 8.0.7. Sorted by name.
const COMMANDS: &[Command] = &[
    plain("ABOR"),
    plain("ACCT"),
    plain("ALLO"),
    transfer(Transfer::Appe),
    plain("CDUP"),
    plain("CHMOD"),
    plain("CWD"),
    plain("DELE"),
    Command { name: "EPRT", kind: Kind::Eprt },
    Command { name: "EPSV", kind: Kind::Epsv },
    plain("HELP"),
    plain("IDLE"),
    transfer(Transfer::List),
    plain("MAIL"),
    plain("MDTM"),
    plain("MKD"),
    plain("MLFL"),
    transfer(Transfer::Mlsd),
    plain("MODE"),
    plain("MRCP"),
    plain("MRSQ"),
    plain("MSAM"),
    plain("MSND"),
    plain("MSOM"),
    transfer(Transfer::Nlst),
    plain("NOOP"),
    plain("PASS"),
    Command { name: "PASV", kind: Kind::Pasv },
    Command { name: "PORT", kind: Kind::Port },
    plain("PWD"),
    plain("QUIT"),
    plain("REIN"),
    plain("REST"),
    transfer(Transfer::Retr),
    plain("RMD"),
    plain("RNFR"),
    plain("RNTO"),
    plain("SITE"),
    plain("SIZE"),
    plain("SMNT"),
    plain("STAT"),
    transfer(Transfer::Stor),
    transfer(Transfer::Stou),
    plain("STRU"),
    plain("SYST"),
    plain("TYPE"),
    plain("UMASK"),
    plain("USER"),
];

/// The command of a line: the known word that ends first, in any case of letters and wherever it
/// stands, for servers skip what Telnet puts before it (Suricata's behaviour).
pub fn find(line: &[u8]) -> Option<Command> {
    (3..=line.len()).find_map(|end| {
        [4, 3, 5].into_iter().find_map(|len| {
            let word = line.get(end.checked_sub(len)?..end)?;
            by_name(word)
        })
    })
}

fn by_name(word: &[u8]) -> Option<Command> {
    let mut upper = [0; 5];
    let upper = upper.get_mut(..word.len())?;
    upper.copy_from_slice(word);
    upper.make_ascii_uppercase();
    let at = COMMANDS.binary_search_by(|c| c.name.as_bytes().cmp(upper)).ok()?;
    COMMANDS.get(at).copied()
}

/// The port of `PORT h1,h2,h3,h4,p1,p2` and the address, when its numbers are bytes.
pub fn port(line: &[u8]) -> Option<(u16, Option<[u8; 4]>)> {
    let place = host_port(strip_word(line, b"PORT")?)?;
    Some((place.port, place.address))
}

/// The port of `227 … (h1,h2,h3,h4,p1,p2)`.
pub fn pasv(line: &[u8]) -> Option<u16> {
    let text = line.strip_prefix(b"227 ")?;
    let open = memchr::memchr(b'(', text)?;
    let place = host_port(&text[open + 1..])?;
    place.rest.starts_with(b")").then_some(place.port)
}

/// The port of `EPRT |protocol|address|port|`.
pub fn eprt(line: &[u8]) -> Option<u16> {
    let text = strip_word(line, b"EPRT")?.strip_prefix(b"|")?;
    let mut fields = text.splitn(4, |b| *b == b'|').skip(2);
    let number = std::str::from_utf8(fields.next()?).ok()?;
    fields.next()?;
    number.trim_matches([' ', '\t']).parse().ok().filter(|p| *p != 0)
}

/// The port of `229 … (|||port|)`.
pub fn epsv(line: &[u8]) -> Option<u16> {
    let text = line.strip_prefix(b"229 ")?;
    let at = memchr::memmem::find(text, b"|||")?;
    let (number, rest) = digits(&text[at + 3..])?;
    rest.starts_with(b"|)").then_some(())?;
    u16::try_from(number).ok().filter(|p| *p != 0)
}

fn strip_word<'a>(line: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = line.split_at_checked(word.len())?;
    let rest = head.eq_ignore_ascii_case(word).then_some(rest)?;
    Some(rest.trim_ascii_start())
}

/// Four numbers of an address and two of a port, apart by commas.
struct Place<'a> {
    port: u16,
    /// When its numbers are bytes.
    address: Option<[u8; 4]>,
    /// What follows.
    rest: &'a [u8],
}

fn host_port(text: &[u8]) -> Option<Place<'_>> {
    let (mut rest, mut octets, mut is_address) = (text, [0; 4], true);
    for octet in &mut octets {
        let (n, behind) = digits(rest)?;
        rest = behind.strip_prefix(b",")?;
        match u8::try_from(n) {
            Ok(n) => *octet = n,
            Err(_) => is_address = false,
        }
    }
    let (high, behind) = digits(rest)?;
    let (low, rest) = digits(behind.strip_prefix(b",")?)?;
    let (high, low) = (u8::try_from(high).ok()?, u8::try_from(low).ok()?);
    let port = u16::from_be_bytes([high, low]);
    (port != 0).then_some(Place { port, address: is_address.then_some(octets), rest })
}

/// The number a text begins with (one too large is the largest), and what follows it.
fn digits(text: &[u8]) -> Option<(u32, &[u8])> {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (head, rest) = text.split_at(end);
    let add = |n: u32, d: &u8| n.saturating_mul(10).saturating_add(u32::from(d - b'0'));
    (!head.is_empty()).then(|| (head.iter().fold(0, add), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(COMMANDS.is_sorted_by_key(|c| c.name));
    }

    #[test]
    fn commands_as_suricata_finds_them() {
        // Line and `ftp.command` of Suricata 8.0.7.
        for (line, name) in [
            ("user bob", Some("USER")),
            ("XYZZY foo", None),
            ("  NOOP", Some("NOOP")),
            ("\u{ff}ABOR", Some("ABOR")),
            ("XYZ LIST", Some("LIST")),
            ("CWD LIST", Some("CWD")),
            ("PASSUSER", Some("PASS")),
            ("xlistx", Some("LIST")),
            ("STORETR", Some("STOR")),
            ("PAPASV", Some("PASV")),
            ("CWDELE", Some("CWD")),
            ("XPWD", Some("PWD")),
            ("SITE UMASK", Some("SITE")),
            ("UMASK 1", Some("UMASK")),
            ("AUTH TLS", None),
            ("FEAT", None),
            ("CW", None),
        ] {
            assert_eq!(find(line.as_bytes()).map(|c| c.name), name, "{line}");
        }
    }

    #[test]
    fn ports_as_suricata_reads_them() {
        // `ftp.dynamic_port` of Suricata 8.0.7; it reads `port` in lower case for no port.
        for (line, n) in [
            ("PORT 10,0,0,1,4,1", Some(1025)),
            ("port 10,0,0,1,4,1", Some(1025)),
            ("PORT 300,0,0,1,4,1", Some(1025)),
            ("PORT 10,0,0,1,4", None),
            ("PORT 10,0,0,1,256,1", None),
            ("PORT 10,0,0,1,1,300", None),
            ("PORT 10,0,0,1,0,0", None),
            ("PORT 10,0,0,1,4,1,7", Some(1025)),
            ("PORT a,b,c,d,4,1", None),
            ("PORT 10, 0, 0, 1, 4, 1", None),
            ("PORT  10,0,0,1,04,001", Some(1025)),
            ("PORT (10,0,0,1,4,1)", None),
            ("PORT 1,2,3,4,5,6 7", Some(1286)),
        ] {
            assert_eq!(port(line.as_bytes()).map(|(p, _)| p), n, "{line}");
        }
        for (line, n) in [
            ("227 Entering Passive Mode (10,0,0,2,4,1).", Some(1025)),
            ("227 x 10,0,0,2,4,1", None),
            ("227 (10,0,0,2,4)", None),
            ("227-(10,0,0,2,4,1)", None),
            ("227 a (b) (10,0,0,2,4,1)", None),
            ("227 (10,0,0,2,4,1", None),
            ("227 ( 10,0,0,2,4,1 )", None),
            ("227 (0,0,0,0,0,21)", Some(21)),
        ] {
            assert_eq!(pasv(line.as_bytes()), n, "{line}");
        }
        for (line, n) in [
            ("229 ok (|||1025|)", Some(1025)),
            ("229 a (b) (|||1025|)", Some(1025)),
            ("229 (|||1025|", None),
            ("229 (|||70000|)", None),
            ("229 (!!!1025!)", None),
            ("229 (|1|1.2.3.4|1025|)", None),
            ("229 |||1025|", None),
            ("229 (|||0|)", None),
        ] {
            assert_eq!(epsv(line.as_bytes()), n, "{line}");
        }
        for (line, n) in [
            ("EPRT |1|10.0.0.1|1025|", Some(1025)),
            ("EPRT |2|::1|1026|", Some(1026)),
            ("EPRT |1|10.0.0.1|x|", None),
            ("EPRT", None),
            ("EPRT !1!1.2.3.4!1025!", None),
            ("EPRT |1|1.2.3.4|1025", None),
            ("EPRT |3|x|1025|", Some(1025)),
            ("EPRT ||| 1025|", Some(1025)),
            ("EPRT |1|1.2.3.4|70000|", None),
            ("EPRT |2|1|2|3|", Some(2)),
        ] {
            assert_eq!(eprt(line.as_bytes()), n, "{line}");
        }
    }
}
