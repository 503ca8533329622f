//! What a client says of itself (MS-RDPBCGR 2.2.1.3.2), as Suricata 8.0.7 logs it.

use super::layouts::LAYOUTS;
use gabion_record::json::Json;

/// A client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Client {
    version: u32,
    width: u16,
    height: u16,
    color_depth: Option<u8>,
    layout: u32,
    build: u32,
    name: String,
    keyboard: u32,
    keyboard_subtype: u32,
    function_keys: u32,
    ime: String,
    product: Option<u16>,
    serial: Option<u32>,
    capabilities: Option<u16>,
    id: String,
    connection: Option<u8>,
    physical: Option<(u32, u32)>,
    orientation: Option<u16>,
    scale: Option<(u32, u32)>,
}

/// Splits what a block begins with off it.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.slice(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.slice(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.slice(4)?.try_into().ok()?))
    }

    /// Text of UTF-16 up to its end.
    fn text(&mut self, len: usize) -> Option<String> {
        let units = self.slice(len)?.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]]));
        let units: Vec<u16> = units.take_while(|u| *u != 0).collect();
        Some(String::from_utf16_lossy(&units))
    }
}

/// Bits of a color's depth that are named by a code (MS-RDPBCGR 2.2.1.3.2).
fn depth_of(code: u16) -> Option<u8> {
    Some(match code {
        0xca00 => 4,
        0xca01 => 8,
        0xca02 => 15,
        0xca03 => 16,
        0xca04 => 24,
        _ => return None,
    })
}

/// Capabilities that a client may name, lowest bit first; a set with others is not read, nor what follows it.
const CAPABILITIES: [(u16, &str); 11] = [
    (0x001, "support_errinfo_pdf"),
    (0x002, "want_32bpp_session"),
    (0x004, "support_statusinfo_pdu"),
    (0x008, "strong_asymmetric_keys"),
    (0x010, ""),
    (0x020, "valid_connection_type"),
    (0x040, "support_monitor_layout_pdu"),
    (0x080, "support_netchar_autodetect"),
    (0x100, "support_dynvc_gfx_protocol"),
    (0x200, "support_dynamic_time_zone"),
    (0x400, "support_heartbeat_pdu"),
];

/// All bits that are known.
const CAPABILITIES_KNOWN: u16 = 0x7ff;

/// Reads the block of a client's core data.
pub(super) fn parse_client(block: &[u8]) -> Option<Client> {
    let mut r = Reader(block);
    let mut c = Client { version: r.u32()?, ..Client::default() };
    (c.width, c.height) = (r.u16()?, r.u16()?);
    // The oldest depth knows two values.
    c.color_depth = depth_of(r.u16()?).filter(|d| matches!(d, 4 | 8));
    r.u16()?;
    (c.layout, c.build) = (r.u32()?, r.u32()?);
    c.name = r.text(32)?;
    (c.keyboard, c.keyboard_subtype, c.function_keys) = (r.u32()?, r.u32()?, r.u32()?);
    c.ime = r.text(64)?;
    parse_further(&mut r, &mut c);
    Some(c)
}

/// What newer clients say in addition: as much as there is.
fn parse_further(r: &mut Reader<'_>, c: &mut Client) -> Option<()> {
    if let Some(depth) = depth_of(r.u16()?) {
        c.color_depth = Some(depth);
    }
    c.product = Some(r.u16()?);
    c.serial = Some(r.u32()?);
    let depth = r.u16()?;
    match depth {
        0 => {}
        4 | 8 | 15 | 16 | 24 => c.color_depth = u8::try_from(depth).ok(),
        // What is not known ends it.
        _ => return None,
    }
    r.u16()?;
    c.capabilities = Some(r.u16().filter(|bits| bits & !CAPABILITIES_KNOWN == 0)?);
    c.id = r.text(64)?;
    c.connection = Some(r.u8()?);
    r.u8()?;
    r.u32()?;
    c.physical = Some((r.u32()?, r.u32()?));
    c.orientation = Some(r.u16()?);
    c.scale = Some((r.u32()?, r.u32()?));
    Some(())
}

const VERSIONS: [(u32, &str); 10] = [
    (0x80001, "v4"),
    (0x80004, "v5"),
    (0x80005, "v10.0"),
    (0x80006, "v10.1"),
    (0x80007, "v10.2"),
    (0x80008, "v10.3"),
    (0x80009, "v10.4"),
    (0x8000a, "v10.5"),
    (0x8000b, "v10.6"),
    (0x8000c, "v10.7"),
];

/// Systems by their builds, those that Suricata 8.0.7 names (measured with one client of each up to 27,000).
const BUILDS: [(u32, &str); 21] = [
    (528, "Windows NT 3.1"),
    (807, "Windows NT 3.5"),
    (1057, "Windows NT 3.51"),
    (1381, "Windows NT 4.0"),
    (2195, "Windows 2000"),
    (2600, "Windows XP"),
    (3790, "Windows Server 2003"),
    (6000, "Windows Vista RTM"),
    (6001, "Windows Vista SP1"),
    (6002, "Windows Vista SP2"),
    (7600, "Windows 7 RTM"),
    (7601, "Windows 7 SP1"),
    (9200, "Windows 8"),
    (9600, "Windows 8.1"),
    (10240, "Windows 10 TH1"),
    (10586, "Windows 10 TH2"),
    (14393, "Windows 10 RS1"),
    (15063, "Windows 10 RS2"),
    (16299, "Windows 10 RS3"),
    (17134, "Windows 10 RS4"),
    (17763, "Windows 10 RS5"),
];

const KEYBOARDS: [(u32, &str); 7] =
    [(1, "xt"), (2, "ico"), (3, "at"), (4, "enhanced"), (5, "1050"), (6, "9140"), (7, "jp")];

const CONNECTIONS: [(u32, &str); 7] = [
    (1, "modem"),
    (2, "low_broadband"),
    (3, "satellite"),
    (4, "high_broadband"),
    (5, "wan"),
    (6, "lan"),
    (7, "autodetect"),
];

fn name_in(names: &[(u32, &'static str)], number: u32) -> Option<&'static str> {
    names.iter().find(|(n, _)| *n == number).map(|(_, name)| *name)
}

fn layout_name(layout: u32) -> Option<&'static str> {
    let layout = u16::try_from(layout).ok()?;
    let at = LAYOUTS.binary_search_by_key(&layout, |(n, _)| *n).ok()?;
    LAYOUTS.get(at).map(|(_, name)| *name)
}

impl Client {
    /// Writes the members of its object.
    pub(super) fn write(&self, json: &mut Json) {
        json.field_plain("version", name_in(&VERSIONS, self.version).unwrap_or("unknown"));
        json.number("desktop_width", self.width);
        json.number("desktop_height", self.height);
        if let Some(depth) = self.color_depth {
            json.number("color_depth", depth);
        }
        json.field_plain("keyboard_layout", layout_name(self.layout).unwrap_or("unknown"));
        json.field_plain("build", name_in(&BUILDS, self.build).unwrap_or("unknown"));
        let text = |json: &mut Json, key: &str, text: &str| {
            if !text.is_empty() {
                json.field(key, text);
            }
        };
        text(json, "client_name", &self.name);
        if let Some(keyboard) = name_in(&KEYBOARDS, self.keyboard) {
            json.field_plain("keyboard_type", keyboard);
        }
        for (key, number) in
            [("keyboard_subtype", self.keyboard_subtype), ("function_keys", self.function_keys)]
        {
            if number != 0 {
                json.number(key, number);
            }
        }
        text(json, "ime", &self.ime);
        if let Some(product) = self.product {
            json.number("product_id", product);
        }
        if let Some(serial) = self.serial.filter(|n| *n != 0) {
            json.number("serial_number", serial);
        }
        if let Some(bits) = self.capabilities.filter(|bits| *bits != 0) {
            json.open_array_key("capabilities");
            for (_, name) in CAPABILITIES.iter().filter(|(b, n)| bits & b != 0 && !n.is_empty()) {
                json.item(name);
            }
            json.close_array();
        }
        text(json, "id", &self.id);
        if let Some(hint) = self.connection.and_then(|n| name_in(&CONNECTIONS, n.into())) {
            json.field_plain("connection_hint", hint);
        }
        let (width, height) = self.physical.unwrap_or_default();
        let (desktop, device) = self.scale.unwrap_or_default();
        for (key, number) in [
            ("physical_width", width),
            ("physical_height", height),
            ("desktop_orientation", self.orientation.unwrap_or_default().into()),
            ("scale_factor", desktop),
            ("device_scale_factor", device),
        ] {
            if number != 0 {
                json.number(key, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_in_order() {
        assert!(LAYOUTS.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(layout_name(0x409), Some("en-US"));
        assert_eq!(layout_name(0x1_0409), None);
    }

    /// The record of Suricata 8.0.7 of a client with these data.
    #[test]
    fn a_client_is_written() {
        let wide = |text: &str, len: usize| {
            let mut out: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            out.resize(len, 0);
            out
        };
        let block = [
            &b"\x04\0\x08\0\x80\x04\x60\x03\x01\xca\x03\xaa\x09\x04\0\0\x28\x0a\0\0"[..],
            &wide("NAME", 32),
            b"\x04\0\0\0\0\0\0\0\x0c\0\0\0",
            &wide("", 64),
            b"\x01\xca\x01\0\0\0\0\0\x0f\0\x07\0\x21\0",
            &wide("55274-OEM", 64),
            b"\x06\0",
        ]
        .concat();
        let mut json = Json::new();
        json.open();
        parse_client(&block).unwrap().write(&mut json);
        json.close();
        let expected = r#"{"version":"v5","desktop_width":1152,"desktop_height":864,"color_depth":15,"keyboard_layout":"en-US","build":"Windows XP","client_name":"NAME","keyboard_type":"enhanced","function_keys":12,"product_id":1,"capabilities":["support_errinfo_pdf","valid_connection_type"],"id":"55274-OEM","connection_hint":"lan"}"#;
        assert_eq!(json.into_line().trim(), expected);
        for len in 0..block.len() {
            let _ = parse_client(&block[..len]);
        }
    }
}
