//! Passwords: Argon2id with the parameters that its authors recommend, a salt each.

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString};

use crate::error::{Error, Result};

/// Fewest characters of a password.
pub(crate) const MIN_PASSWORD: usize = 12;
const MAX_PASSWORD: usize = 1024;

/// The hash of a password, as it is stored.
pub(crate) fn hash_password(password: &str) -> Result<String> {
    if password.chars().count() < MIN_PASSWORD || password.len() > MAX_PASSWORD {
        return Err(Error::Bad(format!("a password has {MIN_PASSWORD} to {MAX_PASSWORD} characters")));
    }
    let mut salt = [0_u8; 16];
    getrandom::fill(&mut salt).map_err(|e| Error::Bug(format!("no randomness: {e}")))?;
    let bug = |e: argon2::password_hash::Error| Error::Bug(format!("hashing a password: {e}"));
    let salt = SaltString::encode_b64(&salt).map_err(bug)?;
    Ok(Argon2::default().hash_password(password.as_bytes(), &salt).map_err(bug)?.to_string())
}

/// Is it the password of this hash? Without a hash the answer is no, after the same work.
pub(crate) fn check_password(hash: Option<&str>, password: &str) -> bool {
    /// Of a password that nobody has: 32 random bytes, thrown away.
    const NOBODY: &str =
        "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$K0dJ1Qv5f0yqYV1r0sO0cUoG0o2fZp1r8b1q2m3n4o4";
    if password.len() > MAX_PASSWORD {
        return false;
    }
    let parsed = PasswordHash::new(hash.unwrap_or(NOBODY));
    let right = parsed.is_ok_and(|parsed| Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok());
    right && hash.is_some()
}

/// May this name a user?
pub(crate) fn is_user_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
    (1..=64).contains(&name.len()) && name.chars().all(plain) && name != "local" && name != "service"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_checked_by_their_hash() {
        let hash = hash_password("correct horse battery").unwrap();
        assert!(hash.starts_with("$argon2id$"));
        assert!(check_password(Some(&hash), "correct horse battery"));
        assert!(!check_password(Some(&hash), "correct horse batterz"));
        assert!(!check_password(None, "correct horse battery"));
        assert!(hash_password("short").is_err());
        assert_ne!(hash, hash_password("correct horse battery").unwrap(), "a salt each");
    }
}
