//! The bytes of a sealed log: segments, chunks and their keys, the tree over them, the signer's epochs. Only the format's
//! own tests and fuzz targets need these from outside; what a program needs is re-exported at the crate's root.

pub mod chunk;
pub mod data_key;
pub mod epoch;
pub mod index;
pub mod retain;
pub mod segment;
pub mod signer;
pub mod tree;
pub mod walk;
pub mod wire;

pub use crate::record::{Builder, Decoded};
