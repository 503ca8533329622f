//! What the kernel reports of an interface's XDP programs, asked by netlink.
//!
//! A link without mode flags succeeds as generic on interfaces without native XDP, so the mode is read back; and a refusal
//! names the program that is in the way.

use crate::attach::XdpMode;
use crate::netlink::{self, Part, attribute};
use crate::refusal::{self, Error};
use std::io;

const RTM_GETLINK: u16 = 18;
const RTM_NEWLINK: u16 = 16;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
/// Bytes of `struct ifinfomsg`.
const HEADS: usize = 16;

/// The XDP program of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// How it is attached; none if there is no program, or several.
    pub mode: Option<XdpMode>,
    /// Its number; 0 if there is none.
    pub program: u32,
}

impl Attached {
    /// Asks the kernel.
    ///
    /// # Errors
    /// If the interface does not exist or netlink is refused.
    pub fn query_interface(interface: u32) -> Result<Self, Error> {
        let answer = ask(interface);
        let answer =
            answer.map_err(|e| refusal::io_error(&format!("interface {interface}"), &e))?;
        Ok(parse_answer(&answer))
    }

    /// Number and name of the program for a message.
    #[must_use]
    pub fn describe(&self) -> String {
        let programs = aya::programs::loaded_programs().flatten();
        let named = programs.into_iter().find(|info| info.id() == self.program);
        let name = named.and_then(|info| info.name_as_str().map(str::to_owned));
        format!("program {} ({})", self.program, name.as_deref().unwrap_or("unknown name"))
    }
}

fn ask(interface: u32) -> io::Result<Vec<u8>> {
    let mut body = vec![0; 4]; // family, padding, type
    body.extend(interface.to_ne_bytes());
    body.extend([0; 8]); // flags, change
    let answer = netlink::ask(Part::Route, RTM_GETLINK, netlink::REQUEST, &body)?;
    let found = answer.into_iter().find(|message| message.kind == RTM_NEWLINK);
    Ok(found.ok_or_else(|| io::Error::from_raw_os_error(libc::EPROTO))?.body)
}

/// The program in an answer to `RTM_GETLINK`.
fn parse_answer(answer: &[u8]) -> Attached {
    let xdp = answer.get(HEADS..).and_then(|list| attribute(list, IFLA_XDP)).unwrap_or_default();
    let mode = attribute(xdp, IFLA_XDP_ATTACHED).and_then(|value| value.first());
    let program = attribute(xdp, IFLA_XDP_PROG_ID).and_then(|value| value.first_chunk());
    Attached {
        mode: match mode {
            Some(1) => Some(XdpMode::Native),
            Some(2) => Some(XdpMode::Generic),
            _ => None,
        },
        program: program.map_or(0, |bytes| u32::from_ne_bytes(*bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_found_among_the_attributes_and_torn_answers_have_none() {
        let mut answer = vec![0; HEADS];
        answer.extend([8, 0, 4, 0, 220, 5, 0, 0]); // IFLA_MTU
        let mut xdp = vec![5, 0, 2, 0, 1, 0, 0, 0]; // attached: native
        xdp.extend([8, 0, 4, 0, 77, 0, 0, 0]); // program
        answer.extend([20, 0, 43, 0x80]); // nested
        answer.extend(xdp);
        let wanted = Attached { mode: Some(XdpMode::Native), program: 77 };
        assert_eq!(parse_answer(&answer), wanted);
        for end in 0..answer.len() {
            let found = parse_answer(&answer[..end]);
            assert_eq!(found, Attached::default(), "cut at {end}");
        }
        assert_eq!(attribute(&[0, 0, 0, 0], 1), None, "a length of nothing ends the list");
    }
}
