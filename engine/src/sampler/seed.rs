//! Where a request's seed comes from.
//!
//! A seed that the operator picks freely is a channel of 64 bits per request, so it is derived from something the client
//! contributes: `seed = first 8 bytes, little-endian, of SHA-256("lastbit/seed/1" 00 || nonce || record key || request id)`, each of the
//! three with its length before it as a little-endian u64.

use sha2::{Digest, Sha256};

/// Identifier of the derivation, for records.
pub const SEED_DERIVATION: &str = "sha256-nonce-record-request/1";

/// The seed of a request.
pub fn derive_seed(client_nonce: &[u8], record_key: &[u8], request_id: &[u8]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(b"lastbit/seed/1\0");
    for part in [client_nonce, record_key, request_id] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::derive_seed;

    #[test]
    fn every_part_counts_and_parts_do_not_run_together() {
        let all = [
            derive_seed(b"nonce", b"key", b"0"),
            derive_seed(b"nonce", b"key", b"1"),
            derive_seed(b"nonc", b"ekey", b"0"),
            derive_seed(b"nonce", b"ke", b"y0"),
            derive_seed(b"", b"noncekey", b"0"),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn pinned() {
        // Computed with Python's hashlib from the definition above.
        assert_eq!(derive_seed(b"nonce", b"key", b"0"), 0x9d51_e33e_2429_aed2);
    }
}
