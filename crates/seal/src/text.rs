//! Hex and base64, strict in reading: one text for one value, so that no note or proof has two forms.

const HEX: &[u8; 16] = b"0123456789abcdef";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Lower-case hex.
pub use gabion_record::hex::to_hex as hex;

/// Reads hex of either case.
#[must_use]
pub fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    let mut out = vec![0; pairs.len()];
    let mut seen = 0;
    for ([high, low], byte) in pairs.iter().zip(&mut out) {
        let (high, low) = (NIBBLES[usize::from(*high)], NIBBLES[usize::from(*low)]);
        seen |= high | low;
        *byte = high << 4 | low & 15;
    }
    (seen & NONE == 0).then_some(out)
}

/// Marks a character that is no digit.
const NONE: u8 = 0x80;

const NIBBLES: [u8; 256] = {
    let mut table = [NONE; 256];
    let mut i = 0;
    while i < 16 {
        table[HEX[i] as usize] = i as u8;
        table[HEX[i].to_ascii_uppercase() as usize] = i as u8;
        i += 1;
    }
    table
};

/// Base64 with padding.
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            if i <= group.len() {
                out.push(char::from(BASE64[(bits >> (18 - 6 * i) & 63) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// Reads base64 with padding; bits beyond the last byte must be zero.
#[must_use]
pub fn unbase64(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|&&c| c == b'=').count();
    if padding > 2 {
        return None;
    }
    let digits = text.get(..text.len() - padding)?;
    let (groups, rest) = digits.as_chunks::<4>();
    let mut out = Vec::with_capacity(groups.len() * 3 + 2);
    out.resize(groups.len() * 3, 0);
    let mut seen = 0;
    let mut value = |c: u8| {
        let value = VALUES[usize::from(c)];
        seen |= value;
        u32::from(value & 63)
    };
    for ([a, b, c, d], bytes) in groups.iter().zip(out.as_chunks_mut::<3>().0) {
        let bits = value(*a) << 18 | value(*b) << 12 | value(*c) << 6 | value(*d);
        let [_, high, middle, low] = bits.to_be_bytes();
        *bytes = [high, middle, low];
    }
    let mut is_exact = true;
    match *rest {
        [] => {}
        [a, b] => {
            let bits = value(a) << 6 | value(b);
            is_exact = bits & 15 == 0;
            out.push((bits >> 4) as u8);
        }
        [a, b, c] => {
            let bits = value(a) << 12 | value(b) << 6 | value(c);
            is_exact = bits & 3 == 0;
            out.extend_from_slice(&[(bits >> 10) as u8, (bits >> 2) as u8]);
        }
        _ => return None,
    }
    (is_exact && seen & NONE == 0).then_some(out)
}

const VALUES: [u8; 256] = {
    let mut table = [NONE; 256];
    let mut i = 0;
    while i < 64 {
        table[BASE64[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// Base64 of exactly 32 bytes.
#[must_use]
pub fn unbase64_hash(text: &str) -> Option<[u8; 32]> {
    unbase64(text.as_bytes())?.try_into().ok()
}

/// The base64 of a PEM block with this label, read to DER.
#[must_use]
pub fn pem(text: &str, label: &str) -> Option<Vec<u8>> {
    let begin = format!("-----BEGIN {label}-----");
    let end = format!("-----END {label}-----");
    let (_, rest) = text.split_once(&begin)?;
    let (body, _) = rest.split_once(&end)?;
    let packed: Vec<u8> = body.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    unbase64(&packed)
}

/// DER as a PEM block, lines of 64.
#[must_use]
pub fn to_pem(der: &[u8], label: &str) -> String {
    let mut out = format!("-----BEGIN {label}-----\n");
    let body = base64(der);
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = tail;
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// Seconds since 1970 as RFC 3339 has them, in UTC.
#[must_use]
pub fn utc(seconds: u64) -> String {
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, in eras of 400.
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (clock / 3_600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `date -u -d @SECONDS +%FT%TZ` has them.
    #[test]
    fn times_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }

    #[test]
    fn base64_of_rfc_4648_and_its_other_forms_refused() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
            assert_eq!(unbase64(coded.as_bytes()).as_deref(), Some(plain.as_bytes()));
        }
        for wrong in ["Zg", "Zh==", "Zg=", "====", "Z===", "Zm9=v", "Zm 8", "=Zg="] {
            assert_eq!(unbase64(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn hex_comes_back_and_pem_opens() {
        assert_eq!(hex(&[0, 0xab, 255]), "00abff");
        assert_eq!(unhex(b"00aBFf").as_deref(), Some(&[0, 0xab, 255][..]));
        assert_eq!(unhex(b"0"), None);
        assert_eq!(unhex(b"0g"), None);
        let der = vec![7u8; 100];
        assert_eq!(pem(&to_pem(&der, "PUBLIC KEY"), "PUBLIC KEY"), Some(der));
    }
}
