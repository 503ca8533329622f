//! Programs: PE, ELF, Mach-O, Java classes.

use super::{be32, le16, le32};
use std::borrow::Cow;

/// What a program is; nothing when it is none.
pub(super) fn describe(head: &[u8]) -> Option<Cow<'static, str>> {
    match head.get(..4)? {
        [b'M', b'Z', ..] => Some(windows(head).unwrap_or("MS-DOS executable".into())),
        b"\x7fELF" => Some(elf(head).unwrap_or("ELF".into())),
        b"\xcf\xfa\xed\xfe" => mach(head, 64),
        b"\xce\xfa\xed\xfe" => mach(head, 32),
        b"\xca\xfe\xba\xbe" => {
            let (minor, major) = {
                let v = be32(head, 4)?;
                (v >> 16, v & 0xffff)
            };
            // Few architectures in one: a universal binary, not a class.
            Some(match major {
                0..=40 => "Mach-O universal binary".into(),
                _ => format!("compiled Java class data, version {major}.{minor}").into(),
            })
        }
        _ => None,
    }
}

/// Of the kind `PE32 executable for MS Windows 6.00 (console), Intel i386, 6 sections`.
fn windows(head: &[u8]) -> Option<Cow<'static, str>> {
    let at = usize::try_from(le32(head, 0x3c)?).ok()?;
    let pe = head.get(at..)?;
    if !pe.starts_with(b"PE\0\0") {
        return match pe.get(..2)? {
            b"NE" => Some("MS-DOS executable, NE for MS Windows 3.x".into()),
            b"LE" => Some("MS-DOS executable, LE executable".into()),
            _ => None,
        };
    }
    let machine = match le16(pe, 4)? {
        0x14c => "Intel i386",
        0x8664 => "x86-64",
        0xaa64 => "ARM64",
        0x1c0 => "ARM",
        0x1c4 => "ARMv7 Thumb",
        0x200 => "Intel Itanium",
        _ => "unknown processor",
    };
    let format = match le16(pe, 24)? {
        0x10b => "PE32",
        0x20b => "PE32+",
        _ => "PE Unknown PE signature",
    };
    let is_library = le16(pe, 22)? & 0x2000 != 0;
    let kind = match (is_library, le16(pe, 92)?) {
        (true, _) => " (DLL)",
        (false, 1) => " (native)",
        (false, 2) => " (GUI)",
        (false, 3) => " (console)",
        (false, 7) => " (POSIX)",
        (false, 9) => " (Windows CE)",
        (false, 10) => " (EFI application)",
        (false, _) => "",
    };
    let (major, minor) = (le16(pe, 72)?, le16(pe, 74)?);
    let sections = le16(pe, 6)?;
    let many = if sections == 1 { "" } else { "s" };
    Some(
        format!(
            "{format} executable for MS Windows {major}.{minor:02}{kind}, {machine}, \
             {sections} section{many}"
        )
        .into(),
    )
}

fn elf(head: &[u8]) -> Option<Cow<'static, str>> {
    let bits = match head.get(4)? {
        1 => "32-bit",
        2 => "64-bit",
        _ => return None,
    };
    let is_little = *head.get(5)? == 1;
    let number = |at: usize| -> Option<u16> {
        let n = le16(head, at)?;
        Some(if is_little { n } else { n.swap_bytes() })
    };
    let order = if is_little { "LSB" } else { "MSB" };
    let kind = match number(16)? {
        1 => "relocatable",
        2 => "executable",
        3 => "shared object",
        4 => "core file",
        _ => return None,
    };
    let machine = match number(18)? {
        2 => "SPARC",
        3 => "Intel i386",
        8 => "MIPS",
        20 => "PowerPC or cisco 4500",
        40 => "ARM",
        62 => "x86-64",
        183 => "ARM aarch64",
        243 => "UCB RISC-V",
        _ => "unknown arch",
    };
    Some(format!("ELF {bits} {order} {kind}, {machine}, version 1").into())
}

fn mach(head: &[u8], bits: u32) -> Option<Cow<'static, str>> {
    let machine = match le32(head, 4)? & 0x00ff_ffff {
        7 if bits == 64 => "x86_64",
        7 => "i386",
        12 if bits == 64 => "arm64",
        12 => "arm",
        _ => "unknown",
    };
    let kind = match le32(head, 12)? {
        1 => "object",
        2 => "executable",
        6 => "dynamically linked shared library",
        8 => "bundle",
        _ => "file",
    };
    let wide = if bits == 64 { "64-bit " } else { "" };
    Some(format!("Mach-O {wide}{machine} {kind}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Suricata's own words for the programs in its tests.
    #[test]
    fn programs_for_windows() {
        let mut head = vec![0u8; 256];
        head[..2].copy_from_slice(b"MZ");
        head[0x3c] = 0x80;
        head[0x80..0x86].copy_from_slice(b"PE\0\0\x4c\x01");
        head[0x86] = 6;
        head[0x80 + 24..0x80 + 26].copy_from_slice(&[0x0b, 0x01]);
        head[0x80 + 72] = 6;
        head[0x80 + 92] = 3;
        let what = "PE32 executable for MS Windows 6.00 (console), Intel i386, 6 sections";
        assert_eq!(describe(&head).as_deref(), Some(what));
        assert_eq!(describe(&head[..0x90]).as_deref(), Some("MS-DOS executable"));
    }
}
