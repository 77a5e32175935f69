//! The file header shared by `*.replay` and `*.evidence`. Specified by `docs/spec/replay-file.md`.
//!
//! ```text
//! 8 bytes  "LASTBIT\n"
//! 8 bytes  kind, ASCII, padded with zero bytes
//! u16      major version      a reader refuses any other than its own
//! u16      minor version      a reader accepts any
//! u32      zero
//! u64      total length of the file in bytes, header included
//! ```

use crate::Error;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;

const MAGIC: &[u8; 8] = b"LASTBIT\n";

/// A kind of file and the version written here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Eight bytes that name the kind.
    pub name: &'static [u8; 8],
    /// Major version.
    pub major: u16,
    /// Minor version.
    pub minor: u16,
}

/// `*.replay`.
pub const REPLAY: Kind = Kind { name: b"replay\0\0", major: 1, minor: 0 };
/// `*.evidence`.
pub const EVIDENCE: Kind = Kind { name: b"evidence", major: 1, minor: 0 };

/// Why bytes are not a file of the expected kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerRefusal {
    /// Fewer bytes than a header.
    #[error("shorter than a file header")]
    Short,
    /// Not one of our files at all.
    #[error("not a lastbit file")]
    Magic,
    /// One of our files, but of another kind.
    #[error("a lastbit file of another kind")]
    Kind,
    /// A major version this reader does not know.
    #[error("format version {major}; only version {known} is read here")]
    Version {
        /// Version found.
        major: u16,
        /// Version known.
        known: u16,
    },
    /// The reserved bytes are not zero.
    #[error("reserved header bytes are not zero")]
    Reserved,
    /// The stated total length is not the number of bytes there are.
    #[error("the header states {stated} bytes, there are {actual}")]
    Length {
        /// Length stated.
        stated: u64,
        /// Bytes present.
        actual: u64,
    },
}

/// Puts the header before `payload`.
#[must_use]
pub fn wrap(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEADER_BYTES + payload.len());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(kind.name);
    file.extend_from_slice(&kind.major.to_le_bytes());
    file.extend_from_slice(&kind.minor.to_le_bytes());
    file.extend_from_slice(&[0; 4]);
    file.extend_from_slice(&((HEADER_BYTES + payload.len()) as u64).to_le_bytes());
    file.extend_from_slice(payload);
    file
}

/// The payload of a complete file of this kind.
///
/// # Errors
/// [`Error::Container`] with the first reason in reading order.
pub fn unwrap(kind: Kind, file: &[u8]) -> Result<&[u8], Error> {
    let refuse = |refusal| Err(Error::Container(refusal));
    let Some((header, payload)) = file.split_first_chunk::<HEADER_BYTES>() else {
        return refuse(ContainerRefusal::Short);
    };
    if &header[..8] != MAGIC {
        return refuse(ContainerRefusal::Magic);
    }
    if &header[8..16] != kind.name {
        return refuse(ContainerRefusal::Kind);
    }
    let major = u16::from_le_bytes([header[16], header[17]]);
    if major != kind.major {
        return refuse(ContainerRefusal::Version { major, known: kind.major });
    }
    if header[20..24] != [0; 4] {
        return refuse(ContainerRefusal::Reserved);
    }
    let mut length = [0_u8; 8];
    length.copy_from_slice(&header[24..]);
    let (stated, actual) = (u64::from_le_bytes(length), file.len() as u64);
    if stated != actual {
        return refuse(ContainerRefusal::Length { stated, actual });
    }
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(file: &[u8]) -> ContainerRefusal {
        match unwrap(REPLAY, file) {
            Err(Error::Container(refusal)) => refusal,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_part_of_the_header_is_checked() {
        let good = wrap(REPLAY, b"payload");
        assert_eq!(unwrap(REPLAY, &good).unwrap(), b"payload");
        let with = |index: usize, byte: u8| {
            let mut file = good.clone();
            file[index] = byte;
            file
        };
        assert_eq!(refusal(&good[..31]), ContainerRefusal::Short);
        assert_eq!(refusal(&with(7, b'\r')), ContainerRefusal::Magic);
        assert_eq!(refusal(&wrap(EVIDENCE, b"")), ContainerRefusal::Kind);
        assert_eq!(refusal(&with(16, 2)), ContainerRefusal::Version { major: 2, known: 1 });
        assert!(unwrap(REPLAY, &with(18, 9)).is_ok(), "a later minor version is readable");
        assert_eq!(refusal(&with(20, 1)), ContainerRefusal::Reserved);
        assert_eq!(refusal(&good[..38]), ContainerRefusal::Length { stated: 39, actual: 38 });
        assert_eq!(refusal(&with(31, 0x80)), ContainerRefusal::Length { stated: (0x80 << 56) | 39, actual: 39 });
    }
}
