//! What can be changed: bundles handed in, keys trusted, audits started. Each change leaves a line in the trail.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, FromRequest as _, Multipart, Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use serde::Deserialize;

use crate::access::Who;
use crate::error::{Error, Result};
use crate::ingest::{self, Files, Receipt};
use crate::store::Role;
use crate::{App, blocking, jobs, views};

type Shared = State<Arc<App>>;

/// A file that arrived, on disk, with the name that the sender gives it.
struct Upload {
    file: std::fs::File,
    name: String,
    size: u64,
}

impl Upload {
    fn new(name: &str) -> Result<Self> {
        let name = ingest::plain(ingest::name_of(&name.replace('\\', "/"))).unwrap_or_else(|_| "upload".to_owned());
        Ok(Self { file: tempfile::tempfile()?, name, size: 0 })
    }

    fn write(&mut self, bytes: &[u8], app: &App) -> Result<()> {
        self.size += bytes.len() as u64;
        if self.size > app.limits.upload {
            return Err(Error::TooLarge(format!(
                "more than {} bytes; hand in parts, or let a folder be watched",
                app.limits.upload
            )));
        }
        Ok(self.file.write_all(bytes)?)
    }

    /// Its files: those of an archive, or itself.
    fn files(mut self, app: &App) -> Result<Files> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut start = [0_u8; 4];
        let read = self.file.read(&mut start)?;
        self.file.seek(SeekFrom::Start(0))?;
        match start.get(..read) {
            Some(b"PK\x03\x04" | b"PK\x05\x06") => ingest::unpack(self.file, self.size, &app.limits),
            Some([0x1f, 0x8b, ..]) => Err(Error::Bad("a gzip file; archives are taken as ZIP".to_owned())),
            _ => {
                let mut bytes = Vec::new();
                self.file.take(app.limits.upload).read_to_end(&mut bytes)?;
                Ok(Files::from([(self.name, bytes)]))
            }
        }
    }
}

/// Takes what a request carries: a form with files, or a body that is one file.
pub(crate) async fn receive(app: &Arc<App>, who: &Who, request: Request) -> Result<Receipt> {
    who.needs(Role::Auditor)?;
    let form =
        request.headers().get(header::CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"multipart/form-data"));
    let mut uploads = Vec::new();
    if form {
        let bad = |e: axum::extract::multipart::MultipartError| Error::Bad(format!("the form cannot be read: {e}"));
        let mut form = Multipart::from_request(request, &()).await.map_err(|e| Error::Bad(e.to_string()))?;
        let mut allowed = who.proven;
        while let Some(mut field) = form.next_field().await.map_err(bad)? {
            if field.name() == Some("csrf") {
                let mut text = Vec::new();
                while let Some(chunk) = field.chunk().await.map_err(bad)? {
                    text.extend_from_slice(&chunk);
                    if text.len() > 200 {
                        break;
                    }
                }
                who.form(std::str::from_utf8(&text).ok())?;
                allowed = true;
                continue;
            }
            // The field with the session's token comes first, so that nothing of a foreign form is stored.
            if !allowed {
                who.form(None)?;
            }
            let mut upload = Upload::new(field.file_name().unwrap_or("upload"))?;
            while let Some(chunk) = field.chunk().await.map_err(bad)? {
                upload.write(&chunk, app)?;
            }
            if upload.size > 0 {
                uploads.push(upload);
            }
        }
    } else {
        who.form(None)?;
        uploads.push(upload_of(app, request).await?);
    }
    if uploads.is_empty() {
        return Err(Error::Bad("no file was chosen".to_owned()));
    }
    let (app, who) = (app.clone(), who.clone());
    blocking(move || {
        let mut all = Receipt::default();
        for upload in uploads {
            let name = upload.name.clone();
            let taken = upload
                .files(&app)
                .and_then(|files| ingest::take(&app.store, &files, &format!("{name}, handed in by {}", who.name)));
            let words = taken.as_ref().map_or_else(|e| format!("refused: {e}"), Receipt::words);
            app.store.note(&who.name, &who.peer(), "handed in", &name, &words)?;
            all.items.extend(taken?.items);
        }
        Ok(all)
    })
    .await
}

/// A body that is one file.
async fn upload_of(app: &App, request: Request) -> Result<Upload> {
    #[derive(Deserialize)]
    struct Named {
        name: Option<String>,
    }
    let named = Query::<Named>::try_from_uri(request.uri()).ok().and_then(|q| q.0.name);
    let mut upload = Upload::new(named.as_deref().unwrap_or("upload.json"))?;
    let mut body = Body::into_data_stream(request.into_body());
    while let Some(chunk) = body.next().await {
        upload.write(&chunk.map_err(|e| Error::Bad(format!("the upload broke off: {e}")))?, app)?;
    }
    Ok(upload)
}

pub(super) async fn bundle(
    State(app): Shared,
    Extension(who): Extension<Who>,
    request: Request,
) -> Result<Json<Receipt>> {
    receive(&app, &who, request).await.map(Json)
}

/// What a key is worth.
#[derive(Deserialize)]
pub(super) struct Trust {
    trust: String,
}

/// Changes how far a key is trusted, and reads what waited for it.
pub(crate) async fn trust_key(app: Arc<App>, who: Who, id: String, trust: String) -> Result<Receipt> {
    who.needs(Role::Admin)?;
    if !matches!(trust.as_str(), "trusted" | "withdrawn") {
        return Err(Error::Bad("trust is `trusted` or `withdrawn`".to_owned()));
    }
    blocking(move || {
        let id = views::digest(&id)?;
        app.store.set_trust(&id, &trust)?;
        app.store.note(&who.name, &who.peer(), &format!("key {trust}"), &id.to_hex(), "done")?;
        if trust == "trusted" { ingest::reconsider(&app.store) } else { Ok(Receipt::default()) }
    })
    .await
}

pub(super) async fn trust(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Path(id): Path<String>,
    Json(body): Json<Trust>,
) -> Result<Json<Receipt>> {
    who.form(None)?;
    trust_key(app, who, id, body.trust).await.map(Json)
}

/// Which log.
#[derive(Deserialize)]
pub(super) struct Wanted {
    log: String,
}

pub(super) async fn audit(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Json(body): Json<Wanted>,
) -> Result<Response> {
    who.form(None)?;
    who.needs(Role::Auditor)?;
    let job = blocking(move || {
        let job = jobs::submit(&app, &views::digest(&body.log)?, &who.name)?;
        app.store.note(&who.name, &who.peer(), "audit asked for", &job.log, &format!("number {}", job.number))?;
        Ok(job)
    })
    .await?;
    Ok((StatusCode::ACCEPTED, Json(job)).into_response())
}
