//! Receipts that were handed out lately, for clients that lost theirs. All of them are in the log's folder.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::json;

use super::error::ApiError;
use super::{Client, Service};
use crate::worker::Place;

/// How many are remembered.
const MOST: usize = 4096;

/// Receipts by the request's id in records.
#[derive(Default)]
pub(crate) struct Receipts(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    by_id: HashMap<String, (u32, Place)>,
    order: VecDeque<String>,
}

impl Receipts {
    /// Remembers one; the oldest is forgotten.
    pub fn add(&self, id: &str, client: Client, place: Place) {
        // A thread that panicked here left a map that is still one.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.by_id.insert(id.to_owned(), (client.0, place)).is_none() {
            all.order.push_back(id.to_owned());
        }
        while all.order.len() > MOST {
            if let Some(oldest) = all.order.pop_front() {
                all.by_id.remove(&oldest);
            }
        }
    }

    /// Finds one of this client's.
    fn find(&self, id: &str, client: Client) -> Option<Place> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.by_id.get(id).filter(|(owner, _)| *owner == client.0).map(|(_, place)| place.clone())
    }
}

/// `GET /v1/receipts/{id}`: by the id of a choice, or of a call (its first choice).
pub(super) async fn find(
    State(service): State<Arc<Service>>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
) -> Response {
    let bare = id.strip_prefix("chatcmpl-").or_else(|| id.strip_prefix("cmpl-")).unwrap_or(&id);
    match service.receipts.find(bare, client) {
        Some(place) => Json(json!({
            "object": "lastbit.receipt",
            "id": bare,
            "record": {
                "origin": service.origin, "index": place.index, "digest": place.record, "request": place.request,
            },
            "receipt": place.receipt,
        }))
        .into_response(),
        None => ApiError::not_found(
            "receipt_not_found",
            "no receipt of yours with this id is remembered; the operator finds it in the log's folder by entry and request",
        )
        .into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_belong_to_who_asked_and_the_oldest_go() {
        let receipts = Receipts::default();
        let place = |index| Place { index, record: String::new(), request: 0, receipt: String::new() };
        for n in 0..=MOST as u64 {
            receipts.add(&format!("0-{n}"), Client(1), place(n));
        }
        assert_eq!(receipts.find("0-0", Client(1)), None);
        assert_eq!(receipts.find("0-1", Client(1)), Some(place(1)));
        assert_eq!(receipts.find("0-1", Client(2)), None);
        receipts.add("0-1", Client(1), place(7));
        assert_eq!(receipts.find("0-1", Client(1)), Some(place(7)));
    }
}
