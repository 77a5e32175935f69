//! People, their sessions, and the trail of what they did.

use record::Digest;
use record::digest::Tagged;
use rusqlite::{OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use super::{Store, now_us};
use crate::error::{Error, Result, missing};

/// What somebody may do; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read.
    Viewer,
    /// Hand bundles in, start audits.
    Auditor,
    /// Trust keys, add people, read the trail.
    Admin,
}

impl Role {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Auditor => "auditor",
            Self::Admin => "admin",
        }
    }

    /// The role of this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Viewer, Self::Auditor, Self::Admin].into_iter().find(|r| r.name() == name)
    }
}

/// Somebody who may sign in.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct User {
    pub name: String,
    pub role: Role,
    #[serde(skip)]
    pub hash: String,
    pub active: bool,
    pub created_us: u64,
}

/// A line of the trail.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Deed {
    pub n: u64,
    pub at_us: u64,
    pub who: String,
    pub peer: String,
    pub what: String,
    pub object: String,
    pub outcome: String,
    /// Hash of the line before it and of this one: a line that is changed or taken out breaks it.
    pub chain: String,
}

fn chain(previous: &str, at_us: u64, line: [&str; 5]) -> Digest {
    let mut hash = Tagged::new("lastbit/web-trail/v1");
    hash.text(previous).u64(at_us);
    for part in line {
        hash.text(part);
    }
    hash.finish()
}

impl Store {
    pub(crate) fn user(&self, name: &str) -> Result<Option<User>> {
        Ok(self.db().query_row("SELECT * FROM users WHERE name=?1", [name], user_row).optional()?)
    }

    pub(crate) fn users(&self) -> Result<Vec<User>> {
        let db = self.db();
        let mut query = db.prepare("SELECT * FROM users ORDER BY name")?;
        Ok(query.query_map([], user_row)?.collect::<Result<_, _>>()?)
    }

    pub(crate) fn put_user(&self, name: &str, role: Role, hash: &str) -> Result<()> {
        self.db().execute(
            "INSERT INTO users VALUES(?1,?2,?3,1,?4) ON CONFLICT(name) DO UPDATE SET role=excluded.role, hash=excluded.hash, active=1",
            params![name, role.name(), hash, now_us()],
        )?;
        self.end_sessions(name)
    }

    pub(crate) fn set_active(&self, name: &str, active: bool) -> Result<()> {
        if self.db().execute("UPDATE users SET active=?2 WHERE name=?1", params![name, active])? == 0 {
            return Err(missing(format!("user {name}")));
        }
        self.end_sessions(name)
    }

    pub(crate) fn end_sessions(&self, user: &str) -> Result<()> {
        self.db().execute("DELETE FROM sessions WHERE user=?1", [user])?;
        Ok(())
    }

    /// Sessions are kept by the hash of their secret: who reads the store cannot take one over.
    pub(crate) fn put_session(&self, id: &Digest, user: &str, expires_us: u64) -> Result<()> {
        let db = self.db();
        db.execute("DELETE FROM sessions WHERE expires_us<?1", [now_us()])?;
        db.execute("INSERT INTO sessions VALUES(?1,?2,?3)", params![id.to_hex(), user, expires_us])?;
        Ok(())
    }

    pub(crate) fn end_session(&self, id: &Digest) -> Result<()> {
        self.db().execute("DELETE FROM sessions WHERE id=?1", [id.to_hex()])?;
        Ok(())
    }

    /// Whose session it is, if it runs and they are active.
    pub(crate) fn session(&self, id: &Digest) -> Result<Option<User>> {
        Ok(self
            .db()
            .query_row(
                "SELECT u.* FROM sessions s JOIN users u ON u.name=s.user WHERE s.id=?1 AND s.expires_us>?2 AND u.active=1",
                params![id.to_hex(), now_us()],
                user_row,
            )
            .optional()?)
    }

    /// Adds a line to the trail.
    pub(crate) fn note(&self, who: &str, peer: &str, what: &str, object: &str, outcome: &str) -> Result<()> {
        let mut db = self.db();
        let tx = db.transaction()?;
        let previous: Option<String> =
            tx.query_row("SELECT chain FROM trail ORDER BY n DESC LIMIT 1", [], |r| r.get(0)).optional()?;
        let at = now_us();
        let link = chain(previous.as_deref().unwrap_or_default(), at, [who, peer, what, object, outcome]).to_hex();
        tx.execute(
            "INSERT INTO trail(at_us, who, peer, what, object, outcome, chain) VALUES(?1,?2,?3,?4,?5,?6,?7)",
            params![at, who, peer, what, object, outcome, link],
        )?;
        tx.commit()?;
        Ok(())
    }

    /// The newest lines before line `before`.
    pub(crate) fn trail(&self, before: Option<u64>, most: u64) -> Result<Vec<Deed>> {
        let db = self.db();
        let mut query = db.prepare("SELECT * FROM trail WHERE ?1 IS NULL OR n<?1 ORDER BY n DESC LIMIT ?2")?;
        Ok(query.query_map(params![before, most], deed_row)?.collect::<Result<_, _>>()?)
    }

    /// Follows the chain of the trail from its beginning.
    ///
    /// # Errors
    /// [`Error::Altered`] with the first line that does not follow.
    pub(crate) fn check_trail(&self) -> Result<u64> {
        let db = self.db();
        let mut query = db.prepare("SELECT * FROM trail ORDER BY n")?;
        let (mut previous, mut count) = (String::new(), 0);
        for deed in query.query_map([], deed_row)? {
            let d = deed?;
            let link = chain(&previous, d.at_us, [&d.who, &d.peer, &d.what, &d.object, &d.outcome]).to_hex();
            if link != d.chain {
                return Err(Error::Altered(format!("line {} of the trail does not follow from those before it", d.n)));
            }
            (previous, count) = (link, count + 1);
        }
        Ok(count)
    }
}

fn user_row(r: &rusqlite::Row<'_>) -> rusqlite::Result<User> {
    let role: String = r.get("role")?;
    Ok(User {
        name: r.get("name")?,
        // An unknown role may do the least.
        role: Role::parse(&role).unwrap_or(Role::Viewer),
        hash: r.get("hash")?,
        active: r.get("active")?,
        created_us: r.get("created_us")?,
    })
}

fn deed_row(r: &rusqlite::Row<'_>) -> rusqlite::Result<Deed> {
    Ok(Deed {
        n: r.get("n")?,
        at_us: r.get("at_us")?,
        who: r.get("who")?,
        peer: r.get("peer")?,
        what: r.get("what")?,
        object: r.get("object")?,
        outcome: r.get("outcome")?,
        chain: r.get("chain")?,
    })
}
