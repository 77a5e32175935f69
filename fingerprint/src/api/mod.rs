//! The OpenAI interface from the client's side: what is asked, and what answers say.

mod answer;
mod ask;
mod logprobs;

pub use answer::{Answer, Choice, Shape, Tokens};
pub use ask::{Ask, Prompt, Route};
pub use logprobs::{Step, same_token};
