//! Bytes for people: sixteen in a line, in hex and as text, as Suricata 8.0.7 writes them (observed).

/// Bytes in a line.
const ROW: usize = 16;

/// Writes bytes: ` 0010  47 45 …   GE…`.
pub(super) fn write_hex_dump(bytes: &[u8], out: &mut Vec<u8>) {
    for (number, row) in bytes.chunks(ROW).enumerate() {
        out.extend_from_slice(format!(" {:04X}  ", number * ROW).as_bytes());
        for at in 0..ROW {
            if at == ROW / 2 {
                out.push(b' ');
            }
            match row.get(at) {
                Some(b) => out.extend_from_slice(format!("{b:02X} ").as_bytes()),
                None => out.extend_from_slice(b"   "),
            }
        }
        out.extend_from_slice(b"  ");
        for (at, b) in row.iter().enumerate() {
            out.push(if matches!(b, b' '..=b'~') { *b } else { b'.' });
            if at + 1 == ROW / 2 {
                out.push(b' ');
            }
        }
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of `tcp-data.log` of Suricata 8.0.7.
    #[test]
    fn rows_are_those_of_suricata() {
        let mut out = Vec::new();
        write_hex_dump(b"GET / HTTP/1.1\r\nHost: testmyids.\xc3\n", &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            " 0000  47 45 54 20 2F 20 48 54  54 50 2F 31 2E 31 0D 0A   GET / HT TP/1.1..\n \
             0010  48 6F 73 74 3A 20 74 65  73 74 6D 79 69 64 73 2E   Host: te stmyids.\n \
             0020  C3 0A                                              ..\n"
        );
        let mut out = Vec::new();
        write_hex_dump(b"PASS 1\r\n", &mut out);
        assert_eq!(out, b" 0000  50 41 53 53 20 31 0D 0A                            PASS 1.. \n");
    }
}
