//! Builds captures of every variant byte by byte, after the format drafts, for the tests.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses a part of it")]

/// Byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

pub struct Bytes {
    pub order: Order,
    pub out: Vec<u8>,
}

impl Bytes {
    pub fn new(order: Order) -> Bytes {
        Bytes { order, out: Vec::new() }
    }

    pub fn u16(&mut self, v: u16) -> &mut Self {
        self.out.extend(if self.order == Order::Little {
            v.to_le_bytes()
        } else {
            v.to_be_bytes()
        });
        self
    }

    pub fn u32(&mut self, v: u32) -> &mut Self {
        self.out.extend(if self.order == Order::Little {
            v.to_le_bytes()
        } else {
            v.to_be_bytes()
        });
        self
    }

    pub fn u64(&mut self, v: u64) -> &mut Self {
        self.out.extend(if self.order == Order::Little {
            v.to_le_bytes()
        } else {
            v.to_be_bytes()
        });
        self
    }

    pub fn raw(&mut self, data: &[u8]) -> &mut Self {
        self.out.extend_from_slice(data);
        self
    }

    pub fn pad4(&mut self) -> &mut Self {
        while !self.out.len().is_multiple_of(4) {
            self.out.push(0);
        }
        self
    }

    /// A pcap file header.
    pub fn pcap_header(
        &mut self,
        magic: u32,
        (major, minor): (u16, u16),
        snaplen: u32,
        link: u32,
    ) -> &mut Self {
        self.u32(magic).u16(major).u16(minor).u32(0).u32(0).u32(snaplen).u32(link)
    }

    /// A pcap record.
    pub fn record(&mut self, sec: u32, frac: u32, wire_len: u32, data: &[u8]) -> &mut Self {
        self.u32(sec).u32(frac).u32(data.len() as u32).u32(wire_len).raw(data)
    }

    /// A pcapng block around a body, which is padded.
    pub fn block(&mut self, kind: u32, body: &dyn Fn(&mut Bytes)) -> &mut Self {
        let mut inner = Bytes::new(self.order);
        body(&mut inner);
        inner.pad4();
        let len = inner.out.len() as u32 + 12;
        self.u32(kind).u32(len).raw(&inner.out).u32(len)
    }

    pub fn section(&mut self) -> &mut Self {
        self.block(0x0a0d_0d0a, &|b| {
            b.u32(0x1a2b_3c4d).u16(1).u16(0).u64(u64::MAX);
        })
    }

    /// An interface description with options as (code, value).
    pub fn interface(&mut self, link: u16, snaplen: u32, options: &[(u16, &[u8])]) -> &mut Self {
        self.block(1, &|b| {
            b.u16(link).u16(0).u32(snaplen);
            for (code, value) in options {
                b.u16(*code).u16(value.len() as u16).raw(value).pad4();
            }
            if !options.is_empty() {
                b.u32(0);
            }
        })
    }

    pub fn enhanced(&mut self, interface: u32, ts: u64, wire_len: u32, data: &[u8]) -> &mut Self {
        self.block(6, &|b| {
            b.u32(interface).u32((ts >> 32) as u32).u32(ts as u32);
            b.u32(data.len() as u32).u32(wire_len).raw(data);
        })
    }

    pub fn obsolete(&mut self, interface: u16, ts: u64, wire_len: u32, data: &[u8]) -> &mut Self {
        self.block(2, &|b| {
            b.u16(interface).u16(3).u32((ts >> 32) as u32).u32(ts as u32);
            b.u32(data.len() as u32).u32(wire_len).raw(data);
        })
    }

    pub fn simple(&mut self, wire_len: u32, data: &[u8]) -> &mut Self {
        self.block(3, &|b| {
            b.u32(wire_len).raw(data);
        })
    }

    pub fn statistics(&mut self, interface: u32, options: &[(u16, u64)]) -> &mut Self {
        self.block(5, &|b| {
            b.u32(interface).u64(0);
            for (code, value) in options {
                b.u16(*code).u16(8).u64(*value);
            }
        })
    }
}

/// One capture of each kind, for tests over all of them.
pub fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = Vec::new();
    for (name, magic, order) in [
        ("pcap little", 0xa1b2_c3d4, Order::Little),
        ("pcap big", 0xa1b2_c3d4, Order::Big),
        ("pcap ns big", 0xa1b2_3c4d, Order::Big),
    ] {
        let mut b = Bytes::new(order);
        b.pcap_header(magic, (2, 4), 65535, 1);
        b.record(10, 20, 3, b"abc").record(11, 0, 0, b"").record(12, 999, 90, &[7; 75]);
        all.push((name, b.out));
    }
    let mut torn = all[0].1.clone();
    torn.truncate(torn.len() - 5);
    all.push(("pcap torn", torn));
    for order in [Order::Little, Order::Big] {
        let mut b = Bytes::new(order);
        b.section().interface(1, 0, &[]).enhanced(0, 5, 100, &[1; 70]).block(0xbad, &|b| {
            b.raw(&[9; 130]);
        });
        b.interface(101, 2, &[(9, &[9])]).simple(4, b"1234").enhanced(1, 7, 2, b"xy");
        b.enhanced(4, 0, 1, b"?").obsolete(1, 8, 2, b"zz").statistics(1, &[(5, 2), (7, 1)]);
        b.order = if order == Order::Little { Order::Big } else { Order::Little };
        b.section().interface(113, 0, &[]).enhanced(0, 9, 5, b"later");
        all.push(("pcapng", b.out));
    }
    all
}
