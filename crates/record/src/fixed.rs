//! Values of one size as bytes: each field at its place, so that a struct is written and read in a few moves.
//!
//! [`fixed!`](crate::fixed!) writes a struct field by field; the form is little-endian and without names. Its reader
//! and its writer are built together.

use crate::evidence::{FindingId, ThreatLevel};
use crate::logs::{Label, Mac, Proto, TimeNs};
use crate::{Ip, Net};

/// A value whose bytes are always as many.
pub trait Fixed: Sized {
    /// Its bytes.
    const LEN: usize;
    /// Writes it to the beginning of a place that was made of zeros; returns what is left of the place.
    fn write<'p>(&self, place: &'p mut [u8]) -> &'p mut [u8];
    /// Reads it from as many bytes; none when they are no such value.
    fn read_fixed(from: &[u8]) -> Option<Self>;

    /// Appends it.
    #[inline(always)]
    fn append<const LEN: usize>(&self, out: &mut Vec<u8>) {
        const { assert!(LEN == Self::LEN) };
        let mut bytes = [0; LEN];
        self.write(&mut bytes);
        out.extend_from_slice(&bytes);
    }
}

macro_rules! fixed_numbers {
    ($($t:ty),+) => {$(
        impl Fixed for $t {
            const LEN: usize = size_of::<$t>();
            #[inline(always)]
            fn write<'p>(&self, place: &'p mut [u8]) -> &'p mut [u8] {
                let Some((place, rest)) = place.split_first_chunk_mut() else { return &mut [] };
                *place = self.to_le_bytes();
                rest
            }
            #[inline(always)]
            fn read_fixed(from: &[u8]) -> Option<Self> {
                Some(<$t>::from_le_bytes(*from.first_chunk()?))
            }
        }
    )+};
}

fixed_numbers!(u8, u16, u32, u64, i64);

/// What is written as something else.
macro_rules! fixed_as {
    ($($t:ty as $other:ty: |$from:ident| $to:expr, |$back:ident| $value:expr;)+) => {$(
        impl Fixed for $t {
            const LEN: usize = <$other as Fixed>::LEN;
            #[inline(always)]
            fn write<'p>(&self, place: &'p mut [u8]) -> &'p mut [u8] {
                let $from = self;
                <$other as Fixed>::write(&$to, place)
            }
            #[inline(always)]
            fn read_fixed(from: &[u8]) -> Option<Self> {
                let $back = <$other as Fixed>::read_fixed(from)?;
                $value
            }
        }
    )+};
}

fixed_as! {
    bool as u8: |b| u8::from(*b), |n| Some(n != 0);
    TimeNs as i64: |t| t.0, |n| Some(TimeNs(n));
    Proto as u8: |p| *p as u8, |n| Proto::from_kept(n);
    Label as u8: |l| *l as u8, |n| {
        [Label::None, Label::Benign, Label::Malicious].get(usize::from(n)).copied()
    };
    f64 as u64: |x| x.to_bits(), |n| Some(f64::from_bits(n));
    ThreatLevel as u8: |l| *l as u8, |n| ThreatLevel::ALL.get(usize::from(n)).copied();
}

macro_rules! fixed_bytes {
    ($($t:ty, $len:literal: |$from:ident| $to:expr, |$back:ident| $value:expr;)+) => {$(
        impl Fixed for $t {
            const LEN: usize = $len;
            #[inline(always)]
            fn write<'p>(&self, place: &'p mut [u8]) -> &'p mut [u8] {
                let Some((place, rest)) = place.split_first_chunk_mut::<$len>() else {
                    return &mut [];
                };
                let $from = self;
                *place = $to;
                rest
            }
            #[inline(always)]
            fn read_fixed(from: &[u8]) -> Option<Self> {
                let $back = *from.first_chunk::<$len>()?;
                Some($value)
            }
        }
    )+};
}

fixed_bytes! {
    Ip, 16: |ip| ip.to_bytes(), |bytes| Ip::from_bytes(bytes);
    Mac, 6: |mac| mac.0, |bytes| Mac(bytes);
    FindingId, 16: |id| id.0, |bytes| FindingId(bytes);
}

impl<T: Fixed> Fixed for Option<T> {
    const LEN: usize = 1 + T::LEN;
    #[inline(always)]
    fn write<'p>(&self, place: &'p mut [u8]) -> &'p mut [u8] {
        let place = self.is_some().write(place);
        match self {
            Some(value) => value.write(place),
            // The place was made of zeros.
            None => place.get_mut(T::LEN..).unwrap_or_default(),
        }
    }
    #[inline(always)]
    fn read_fixed(from: &[u8]) -> Option<Self> {
        if bool::read_fixed(from)? { T::read_fixed(from.get(1..)?).map(Some) } else { Some(None) }
    }
}

/// A network as its base and length.
struct NetParts {
    base: Ip,
    len: u8,
}

impl Fixed for Net {
    const LEN: usize = NetParts::LEN;
    #[inline(always)]
    fn write<'p>(&self, place: &'p mut [u8]) -> &'p mut [u8] {
        NetParts { base: self.base(), len: self.len_mapped() }.write(place)
    }
    #[inline(always)]
    fn read_fixed(from: &[u8]) -> Option<Self> {
        NetParts::read_fixed(from).map(|net| Net::new(net.base, net.len))
    }
}

/// Implements [`Fixed`] for structs whose fields have one size each.
#[macro_export]
macro_rules! fixed {
    ($($name:ty { $($field:ident: $t:ty,)+ })+) => {$(
        impl $crate::fixed::Fixed for $name {
            const LEN: usize = 0 $(+ <$t as $crate::fixed::Fixed>::LEN)+;
            #[inline(always)]
            fn write<'p>(&self, place: &'p mut [u8]) -> &'p mut [u8] {
                $(let place = $crate::fixed::Fixed::write(&self.$field, place);)+
                place
            }
            #[inline(always)]
            fn read_fixed(from: &[u8]) -> Option<Self> {
                $(
                    let ($field, from) = from.split_at_checked(<$t as $crate::fixed::Fixed>::LEN)?;
                    let $field = <$t as $crate::fixed::Fixed>::read_fixed($field)?;
                )+
                let _ = from;
                Some(Self { $($field,)+ })
            }
        }
    )+};
}

fixed! { NetParts { base: Ip, len: u8, } }
