//! From token ids to text, piece by piece: characters are never split, and nothing that may belong to a stop string is let go.

use engine::tokenizer::Tokenizer;

/// What the decoder writes where bytes are no character (yet).
const NOT_A_CHARACTER: char = '\u{fffd}';

/// Text of one output, as its tokens come.
pub struct TextStream {
    tokenizer: Tokenizer,
    stops: Vec<String>,
    ids: Vec<u32>,
    /// Ids from here on are decoded together: a token's text may depend on the one before it.
    window: usize,
    /// Ids up to here have become text.
    done: usize,
    /// Text that is not handed out yet.
    held: String,
    /// Set when a stop string came: there is no more text.
    stopped: bool,
}

impl TextStream {
    /// A stream that ends before the first of `stops`.
    pub fn new(tokenizer: Tokenizer, stops: Vec<String>) -> Self {
        Self { tokenizer, stops, ids: Vec::new(), window: 0, done: 0, held: String::new(), stopped: false }
    }

    /// Takes the next token; the text that is certain now.
    ///
    /// # Errors
    /// [`engine::Error::Tokenizer`].
    pub fn push(&mut self, id: u32) -> engine::Result<String> {
        self.ids.push(id);
        let text = self.decoded()?;
        if !text.ends_with(NOT_A_CHARACTER) {
            self.take(&text);
        }
        Ok(self.release(false))
    }

    /// All that is left once the last token has come.
    ///
    /// # Errors
    /// [`engine::Error::Tokenizer`].
    pub fn finish(&mut self) -> engine::Result<String> {
        let text = self.decoded()?;
        self.take(&text);
        Ok(self.release(true))
    }

    /// Text of the ids that have become none yet.
    fn decoded(&self) -> engine::Result<String> {
        let before = self.tokenizer.decode(&self.ids[self.window..self.done])?;
        let all = self.tokenizer.decode(&self.ids[self.window..])?;
        Ok(all.strip_prefix(&before).map_or(all.clone(), ToOwned::to_owned))
    }

    fn take(&mut self, text: &str) {
        self.held.push_str(text);
        if !text.is_empty() {
            self.window = self.done;
        }
        self.done = self.ids.len();
    }

    fn release(&mut self, all: bool) -> String {
        if self.stopped {
            self.held.clear();
            return String::new();
        }
        if let Some(at) = self.stops.iter().filter_map(|s| self.held.find(s.as_str())).min() {
            self.stopped = true;
            let text = self.held[..at].to_owned();
            self.held.clear();
            return text;
        }
        let kept = if all { 0 } else { self.stops.iter().map(|s| overlap(&self.held, s)).max().unwrap_or(0) };
        let rest = self.held.split_off(self.held.len() - kept);
        std::mem::replace(&mut self.held, rest)
    }
}

/// Bytes of the longest end of `text` that `stop` begins with.
fn overlap(text: &str, stop: &str) -> usize {
    let ends = stop.char_indices().map(|(at, _)| at).skip(1);
    ends.filter(|n| text.ends_with(&stop[..*n])).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer() -> Tokenizer {
        engine::model::embedded().unwrap().tokenizer
    }

    fn pieces(text: &str, stops: &[&str]) -> (Vec<String>, String) {
        let tokenizer = tokenizer();
        let ids = tokenizer.encode(text).unwrap();
        let mut stream = TextStream::new(tokenizer.clone(), stops.iter().map(|s| (*s).to_owned()).collect());
        let mut out: Vec<String> = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
        out.push(stream.finish().unwrap());
        (out, tokenizer.decode(&ids).unwrap())
    }

    #[test]
    fn pieces_add_up_to_the_text() {
        for text in
            ["In the beginning God created the heaven", "caf\u{e9} \u{4f60}\u{597d} \u{1f600} end", "a  b\n\n c", ""]
        {
            let (out, whole) = pieces(text, &[]);
            assert_eq!(out.concat(), whole);
            assert!(!out.iter().any(|p| p.contains(NOT_A_CHARACTER)), "{out:?}");
        }
    }

    #[test]
    fn bytes_that_never_become_a_character_come_at_the_end() {
        let tokenizer = tokenizer();
        let mut ids = tokenizer.encode("ab\u{1f600}").unwrap();
        ids.pop();
        let mut stream = TextStream::new(tokenizer.clone(), Vec::new());
        let pushed: String = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
        assert_eq!(pushed, "ab");
        assert_eq!(pushed + &stream.finish().unwrap(), tokenizer.decode(&ids).unwrap());
    }

    #[test]
    fn text_ends_before_a_stop_string_wherever_token_borders_are() {
        let text = "In the beginning God created the heaven and the earth";
        for stop in ["God", "d cr", " created the heaven and", "In", "h", "ginning God c"] {
            let (out, whole) = pieces(text, &["never", stop]);
            let at = whole.find(stop).unwrap();
            assert_eq!(out.concat(), whole[..at], "{stop}");
        }
        // The beginning of a stop string that does not go on is text after all.
        let (out, whole) = pieces(text, &["earth!", "heaven and hell"]);
        assert_eq!(out.concat(), whole);
    }

    #[test]
    fn overlaps_are_whole_characters() {
        assert_eq!(overlap("ab", "bc"), 1);
        assert_eq!(overlap("aab", "aabaab"), 3);
        assert_eq!(overlap("x\u{e9}", "\u{e9}y"), 2);
        assert_eq!(overlap("abc", "abc"), 0);
        assert_eq!(overlap("", "a"), 0);
    }
}
